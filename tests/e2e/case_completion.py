"""What the completion scripts offer: all that the table of commands has, in each shell that this machine has."""

import os
import re
import shutil
import subprocess

from lab import case, expect, wait_over


def commands_of(lab):
    """The commands in the help text: name (one word or two) to the options in the help of that command."""
    def run(*words):
        return subprocess.run([f"{lab.build}/shoal", *words], capture_output=True, text=True, check=True).stdout
    commands = {}
    for line in run("--help").split("\nCommands:\n")[1].split("\n\n")[0].splitlines():
        words = line.split()
        second = words[1:2] if re.fullmatch("[a-z]+", words[1]) and run(words[0], "--help").startswith(f"Usage: shoal {words[0]} COMMAND") else []
        name = " ".join([words[0], *second])
        commands[name] = set(re.findall(r"^  (--[a-z-]+)", run(*name.split(), "--help"), re.MULTILINE))
    return commands


def script_of(lab, shell):
    path = lab.dir / f"completion.{shell}"
    path.write_text(subprocess.run([f"{lab.build}/shoal", "completion", shell], capture_output=True, text=True, check=True).stdout)
    return path


@case(limit_s=60)
def completion_offers_every_command_and_option(lab):
    commands = commands_of(lab)
    expect({"submit", "completion", "checkpoint get"} <= set(commands), f"the help lists {sorted(commands)}")
    firsts = {name.split()[0] for name in commands} | {"help"}

    asks = ["shoal ''", *(f"shoal {name} --" for name in commands)]
    script = f". {script_of(lab, 'bash')}\n" + "".join(
        f"COMP_WORDS=({ask}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shoal; echo ${{COMPREPLY[*]}}\n" for ask in asks)
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=40)
    expect(said.returncode == 0 and said.stderr == "", f"bash: {said.stderr}")
    offers = [set(line.split()) for line in said.stdout.splitlines()]
    expect(offers[0] == firsts, f"bash offers the commands {offers[0] ^ firsts} too much or not")
    for name, offer in zip(commands, offers[1:]):
        expect(offer == commands[name], f"for {name} bash offers {offer ^ commands[name]} too much or not")

    zsh = script_of(lab, "zsh")
    text = zsh.read_text()
    for name, options in commands.items():
        specs = re.search(rf"^    '{name}'\) specs=\((.*)\) ;;$", text, re.MULTILINE)
        common = re.search(r"^    common=\((.*)\)$", text, re.MULTILINE)
        found = set(re.findall(r" '\*?(--[a-z-]+)=?\[", specs[1] + common[1]))
        expect(found == options, f"for {name} zsh offers {found ^ options} too much or not")
    fish = script_of(lab, "fish")
    missing = [shell for shell in ("zsh", "fish") if shutil.which(shell) is None]
    for shell, path in (("zsh", zsh), ("fish", fish)):
        if shell not in missing:
            said = subprocess.run([shell, "-n", path], capture_output=True, text=True, timeout=40)
            expect(said.returncode == 0, f"{shell} cannot read its script: {said.stderr}")
    if "fish" in missing:
        lines = fish.read_text()
        for name, options in commands.items():
            for option in options:
                expect(re.search(rf"^complete -c shoal( -n '__shoal_at \"{name}\"')? -l {option[2:]} ", lines, re.MULTILINE),
                       f"for {name} fish does not offer {option}")
    else:
        script = f"source {fish}\n" + "".join(f"echo '> {name}'; complete -C 'shoal {name} --'\n" for name in commands)
        script += "echo '> '; complete -C 'shoal '\n"
        said = subprocess.run(["fish", "-c", script], capture_output=True, text=True, timeout=50)
        offers = {part.split("\n")[0]: {line.split("\t")[0] for line in part.splitlines()[1:]} for part in said.stdout.split("> ")[1:]}
        expect(offers.pop("") == firsts, f"fish offers {said.stdout[-2000:]}")
        for name, options in commands.items():
            expect(offers[name] == options, f"for {name} fish offers {offers[name] ^ options} too much or not")
    return f"without {' and '.join(missing)}" if missing else None


@case(limit_s=90)
def completion_offers_what_the_daemon_knows(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "digits", "entrypoint": "true", "searcher": {"name": "grid"},
                                 "hyperparameters": {"a": {"type": "int", "minval": 1, "maxval": 3}}})
    wait_over(mesh, identity, 60)
    node.run("invite")
    invite = node.run("invite", "--list").splitlines()[1].split()[0]
    trials = {f"digits/{number}" for number in range(3)}
    asks = [("show ''", {identity, "digits"}), ("cancel dig", {"digits"}), ("wait dig", {"digits"}), ("delete x dig", {"digits"}),
            ("logs dig", {"digits"}), ("stop dig", {"digits/"}), ("logs digits/", trials), ("logs digits/2", {"digits/2"}), ("metrics dig", {"digits"}),
            ("checkpoint get digits/", trials), ("output ls digits/", trials), ("checkpoint ls dig", {"digits"}),
            ("drain ''", {node.name}), ("evict ''", {node.name}), ("withhold ''", {"0", "1"}), ("withhold 0 1", {"1"}),
            ("invite --revoke ''", {invite}), ("submit --set resources.slots", {"resources.slots_per_trial="}),
            ("submit --set seed = 4 exp.yam", {"exp.yaml"}), ("submit --context co", {"code"}), ("submit exp", {"exp.yaml"}),
            ("checkpoint get digits/0 co", {"code"}), ("completion z", {"zsh"})]
    (lab.dir / "there" / "code").mkdir(parents=True)
    (lab.dir / "there" / "exp.yaml").write_text("")
    # The scripts give up after a second; here they wait, however slow the machine is.
    script = f". {script_of(lab, 'bash')}\ntimeout() {{ shift; \"$@\"; }}\n" + "".join(
        f"COMP_WORDS=(shoal --dir {node.dir} {ask}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shoal; echo ${{COMPREPLY[*]}}\n"
        for ask, _ in asks)
    environment = {**os.environ, "PATH": f"{lab.build}:{os.environ['PATH']}"}
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment,
                          cwd=lab.dir / "there")
    expect(said.returncode == 0 and said.stderr == "", f"bash: {said.stderr}")
    for (ask, wanted), line in zip(asks, said.stdout.splitlines(), strict=True):
        expect(set(line.split()) == wanted, f"for {ask} bash offers {line!r}, not {sorted(wanted)}")
    if shutil.which("fish") is None:
        return "without fish"
    some = [("show dig", {"digits"}), ("logs digits/", trials), ("withhold ", {"0", "1"}), ("invite --revoke ", {invite}),
            ("submit --set resources.slots", {"resources.slots_per_trial="})]
    script = f"source {script_of(lab, 'fish')}\nfunction timeout; $argv[2..]; end\n" + "".join(
        f"echo '> '; complete -C 'shoal --dir {node.dir} {ask}'\n" for ask, _ in some)
    said = subprocess.run(["fish", "-c", script], capture_output=True, text=True, timeout=60, env=environment)
    for (ask, wanted), part in zip(some, said.stdout.split("> \n")[1:], strict=True):
        found = {line.split("\t")[0] for line in part.splitlines()}
        expect(found == wanted, f"for {ask} fish offers {found}, not {sorted(wanted)}: {said.stderr}")
    return None
