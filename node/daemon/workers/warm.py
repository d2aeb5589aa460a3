"""A warm process: imports what a program imports, and then forks each trial's process from itself.

    python3 [OPTION]... /proc/self/fd/4 ROOM

shoald starts it (workers/warm.h) in the copy of the code of a first trial. Descriptor 3 is a socket of packets to the daemon, and
1 and 2 are a file in memory: each trial begins its log with what the imports have written there. The first packet is the path of
shoal-keep, the directory and the command, as texts with NULs between them; each further one is a trial's, for its shoal-keep
(node/keep/proto.h). Ahead of a trial the process forks a parent, which forks the trial's process and then becomes shoal-keep, so
that a trial does not wait for that. The answers are texts: `ready`, or `cold` and the reason, behind which the process ends. ROOM is
blanks for the name that `ps` shows."""

FRESH = dict(globals())  # what a script of this Python begins with

import sys

STANDARD = set(sys.modules)  # what the program's own files cannot hide
HAS_PLACE = not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))
if HAS_PLACE:
    del sys.path[0]  # the directory of this script

import array
import ast
import atexit
import ctypes
import dis
import errno
import fcntl
import gc
import importlib
import importlib.machinery
import importlib.util
import os
import runpy
import select
import signal
import socket
import time
import types
import warnings

OWN = sys._getframe().f_code.co_filename
DAEMON = 3
LINK, WARM = 3, 6  # of node/keep/proto.h
SPARE_S = 0.03  # without a trial to begin, before the next one is forked ahead
ROOM = "SHOAL_WARM_ROOM"  # a variable in whose place a trial writes its token, for those who look for it in /proc
PACKET = 256 * 1024
PATH_BYTES = 1024  # of node/keep/keep.h: room for the directory in the list of processes
OUTPUT_MAX = 64 * 1024
OOM_SCORE = 300  # of node/keep/main.c
GPU_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/dxg")
CHANGES = {"environ", "putenv", "unsetenv", "setrlimit", "chdir"}
CHANGES_OF_SYS = {"path", "modules", "meta_path", "path_hooks"}
SEARCH_WORKER = "shoal._search_worker"


class Cold(Exception):
    """Why trials cannot be forked from here: the end of a sentence."""


# ---- this process's memory, as /proc shows it -----------------------------------------------------------------------------

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.getenv.restype = ctypes.c_void_p


def bounds():
    """Where the arguments of this process begin and end in its memory."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rsplit(b")", 1)[1].split()
    return int(fields[45]), int(fields[46])


def room_of_token():
    """Where the text of the variable ROOM begins, and its length. The text stays there when the variable is removed."""
    name = ROOM.encode()
    at = LIBC.getenv(name)
    value = os.environb.get(name)
    return (at - len(name) - 1, len(name) + 1 + len(value)) if at and value is not None else (0, 0)


def overwrite(at, room, text):
    """Writes a text into memory of `room` bytes. One that does not fit is cut off."""
    if at and room > 0:
        ctypes.memmove(at, text[: room - 1].ljust(room, b"\0"), room)


def rename(arguments):
    begin, end = bounds()
    overwrite(begin, end - begin, b"\0".join(os.fsencode(each) for each in arguments))


def score(value=None):
    """Reads, or sets, how soon the kernel ends this process when memory is short."""
    try:
        with open("/proc/self/oom_score_adj") as file:
            before = int(file.read())
        if value is not None and value != before:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(str(value))
        return before
    except OSError:
        return 0


# ---- which modules the program imports ------------------------------------------------------------------------------------

def changes_imports(node):
    """True if a later import may do something else because of this."""
    if isinstance(node, ast.Name):
        return node.id in CHANGES
    if not isinstance(node, ast.Attribute):
        return False
    return node.attr in CHANGES or (node.attr in CHANGES_OF_SYS and isinstance(node.value, ast.Name) and node.value.id == "sys")


class Imports:
    """The imports of a program and of its own modules, in their order, as far as they are sure to come before anything that could
    change what an import does. Own modules are read and not imported: each trial has its own copy of them."""

    def __init__(self, places):
        self.places = places  # directories of the program's own modules
        self.seen = set()
        self.found = []  # module, names, whether the program goes on without it
        self.is_over = False

    def script(self, path):
        self.seen.add(path)
        try:
            with open(path, "rb") as file:
                tree = ast.parse(file.read(), path)
        except (OSError, SyntaxError, ValueError):  # the trial's to say
            self.is_over = True
            return
        self.body(tree.body, os.path.dirname(path), False)

    def body(self, statements, package, is_optional):
        for statement in statements:
            if self.is_over:
                return
            if isinstance(statement, ast.Import):
                for each in statement.names:
                    self.module(each.name, (), is_optional)
            elif isinstance(statement, ast.ImportFrom):
                names = tuple(each.name for each in statement.names)
                if statement.level == 0:
                    self.module(statement.module, names, is_optional)
                else:
                    self.relative(package, statement, names)
            elif isinstance(statement, ast.Try):
                self.body(statement.body, package, True)
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            elif any(changes_imports(node) for node in ast.walk(statement)):
                self.is_over = True

    def module(self, name, names, is_optional):
        own = self.own(self.places, name.split(".")[0])
        if own is None:
            self.found.append((name, names, is_optional))
            return
        for part in name.split(".")[1:]:
            if self.is_over or own is None:
                return
            own = self.own([own], part)
        if own is not None and os.path.isdir(own):
            for each in names:
                self.own([own], each)

    def relative(self, package, statement, names):
        place = package
        for _ in range(statement.level - 1):
            place = os.path.dirname(place)
        for part in statement.module.split(".") if statement.module else []:
            place = self.own([place], part) if place is not None else None
        if place is not None and os.path.isdir(place):
            for each in names:
                self.own([place], each)

    def own(self, places, name):
        """Reads an own module. Returns its directory if it is a package, its file if it is none, None if it is not there."""
        for place in places:
            for path in (os.path.join(place, name, "__init__.py"), os.path.join(place, name + ".py")):
                if os.path.isfile(path):
                    if path not in self.seen:
                        self.script(path)
                    return os.path.dirname(path) if path.endswith("__init__.py") else path
        return None


def imports_of_function(place, file):
    """The imports in the body of a function that shoal.search ships; reading it imports what it refers to."""
    worker = importlib.import_module(SEARCH_WORKER)
    path = list(sys.path)
    before = os.getcwd()
    try:
        os.chdir(place)
        sys.path.insert(0, place)
        function = worker.load(file)
    except SystemExit as error:
        raise Cold("its function cannot be read: %s" % error) from error
    finally:
        sys.path[:] = path
        os.chdir(before)
    scope = getattr(function, "__globals__", {})
    codes = [each.__code__ for each in [function, *scope.values()] if isinstance(each, types.FunctionType)]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        names = None  # of the instruction before
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                yield step.argval, names if isinstance(names, tuple) else (), True
            names = step.argval


def is_own(module, place):
    try:
        file = getattr(module, "__file__", None)
        paths = [file] if file else list(getattr(module, "__path__", []))
    except Exception:  # code of a module that stands in for another
        return False
    return any(str(each).startswith(place + os.sep) for each in paths)


def hidden(place):
    """A module that a file of the program stands in the place of, in a fresh process."""
    for name in sorted(sys.modules):
        if "." not in name and name not in STANDARD and name not in sys.builtin_module_names and name != "__main__":
            for path in (os.path.join(place, name + ".py"), os.path.join(place, name, "__init__.py")):
                if os.path.isfile(path) and not is_own(sys.modules[name], place):
                    return os.path.relpath(path, place), name
    return None


def module_file(places, name):
    """The file of an own module that `python -m` runs; None: it is none of the program's own."""
    for place in places:
        path = os.path.join(place, *name.split("."))
        for each in (path + ".py", os.path.join(path, "__main__.py")):
            if os.path.isfile(each):
                return each
    return None


def import_all(work, arguments):
    if arguments[0] == "-m":
        place, script = work, module_file([work, *own_places(work)], arguments[1])
    else:
        script = os.path.join(work, arguments[0])
        place = os.path.dirname(os.path.realpath(script))
        if not os.path.isfile(script):
            raise Cold("%s is no file of Python" % arguments[0])
    imports = Imports([place, *own_places(work)] if HAS_PLACE else own_places(work))
    found = imports.found
    if script is not None:
        imports.script(script)
    elif arguments[1] == SEARCH_WORKER and len(arguments) > 2:
        found = list(imports_of_function(work, arguments[2]))
        found.insert(0, (SEARCH_WORKER, (), False))
    else:
        found.append((arguments[1], (), False))
    for name, names, is_optional in found:
        import_one(name, names, is_optional)
    for name in [name for name, module in sys.modules.items() if name not in STANDARD and is_own(module, work)]:
        del sys.modules[name]
    clash = hidden(place) if HAS_PLACE else None
    if clash is not None:
        raise Cold("its file %s stands in the place of the module %s" % clash)


def import_one(name, names, is_optional):
    top = name.split(".")[0]
    try:
        if top not in sys.modules and importlib.util.find_spec(top) is None:
            return  # the program finds it otherwise, or fails by itself
        __import__(name, {}, {}, list(names), 0)
    except Exception as error:
        if not is_optional:
            raise Cold("the import of %s has failed (%s: %s)" % (name, type(error).__name__, str(error)[:100])) from error
    except SystemExit as error:
        raise Cold("the import of %s ends the program" % name) from error


def own_places(work):
    return [each for each in sys.path if each == work or each.startswith(work + os.sep)]


# ---- whether a fork is like a fresh process -------------------------------------------------------------------------------

def descriptors():
    """The open descriptors of this process, with what they are."""
    found = {}
    for each in os.listdir("/proc/self/fd"):
        try:
            found[int(each)] = os.readlink("/proc/self/fd/" + each)
        except OSError:
            continue  # the one of the listing
    return found


def threads():
    """The names of this process's threads but this one. Libraries that end theirs before a fork have done so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    for _ in range(20):  # one that has just ended may still be listed
        names = []
        for each in os.listdir("/proc/self/task"):
            if int(each) != os.getpid():
                try:
                    with open("/proc/self/task/%s/comm" % each) as file:
                        names.append(file.read().strip())
                except OSError:
                    continue
        if not names:
            break
        time.sleep(0.01)
    threading = sys.modules.get("threading")
    known = [each.name for each in threading.enumerate() if each is not threading.main_thread()] if threading else []
    return known or names


def check(before):
    """Raises Cold if the imports have left what a fork does not take along, or what trials must not share."""
    for fd, what in descriptors().items():
        if what.startswith(GPU_FILES):
            raise Cold("its imports have opened %s" % what)
        if fd not in before and what.startswith(("socket:", "pipe:", "anon_inode:")):
            raise Cold("its imports have opened a %s" % what.split(":")[0].replace("anon_inode", "queue of events"))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        raise Cold("its imports have initialised CUDA")
    try:
        os.waitpid(-1, os.WNOHANG)
        raise Cold("its imports have started a process")
    except ChildProcessError:
        pass
    names = threads()
    if names:
        raise Cold("its imports have started %s (%s)" % ("a thread" if len(names) == 1 else "%d threads" % len(names),
                                                       ", ".join(names[:3])))


# ---- a trial --------------------------------------------------------------------------------------------------------------

class Begun(Exception):
    """Leads the process of a trial out of the loop of the process that forked it."""

    def __init__(self, trial):
        super().__init__()
        self.trial = trial


class Trial:
    """What the process of a trial knows when it begins."""

    def __init__(self, arguments, directory, variables):
        self.arguments, self.directory, self.variables = arguments, directory, variables


def receive(channel, size):
    """A packet and its descriptors; b"": the other end is closed."""
    room = array.array("i")
    space = socket.CMSG_SPACE(128 * room.itemsize)
    data, more, _, _ = channel.recvmsg(size, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    for level, kind, bytes_ in more:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            room.frombytes(bytes_[: len(bytes_) - len(bytes_) % room.itemsize])
    return data, list(room)


def become_keep(program, worker, order, keeps):
    """Turns this process, which has a trial's process below it, into a shoal-keep that waits for its order."""
    null = os.open("/dev/null", os.O_RDWR)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 32) for fd in (null, null, null, order, keeps)]
    for to, fd in zip((0, 1, 2, LINK, WARM), high):
        os.dup2(fd, to)
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # SIGKILL, SIGSTOP, and what libc keeps for itself
    os.closerange(LINK + 1, WARM)
    os.closerange(WARM + 1, 64)
    os.execve(program, ["shoal-keep", "-", str(worker), " " * PATH_BYTES], {})


def fork_spare(channel, program, daemon_score, fds=()):
    """Forks the process of a later trial, and its shoal-keep. Returns a socket for the order; None: there is no memory. In the trial's
    process it raises Begun. `fds` are open here, and of another trial or not this process's to keep."""
    ours, order = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        parent = os.fork()
    except OSError:
        parent = -1
    if parent != 0:
        order.close()
        return ours if parent > 0 else ours.close()
    try:
        ours.close()
        os.setsid()
        keeps, workers = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        keep = os.getpid()
        worker = os.fork()
    except OSError:
        os._exit(125)
    if worker == 0:
        for each in (keeps, order, channel):
            each.close()
        for fd in fds:
            os.close(fd)
        raise Begun(enter(workers, keep))
    try:
        score(daemon_score)
        become_keep(program, worker, order.fileno(), keeps.fileno())
    finally:
        os._exit(125)


def hand_over(spare, packet, fds):
    """Gives the waiting shoal-keep its run. False: it is no more."""
    if spare is None:
        return False
    try:
        spare.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    except OSError:
        return False
    finally:
        spare.close()
    return True


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def offer(channel, program, daemon_score):
    """Serves the daemon, until it closes the socket."""
    spare = None
    while True:
        if spare is None and not select.select([channel], [], [], SPARE_S)[0]:
            spare = fork_spare(channel, program, daemon_score)
        packet, fds = receive(channel, PACKET)
        if not packet:
            os._exit(0)
        if not hand_over(spare, packet, fds):  # there is none yet, or it was killed
            hand_over(fork_spare(channel, program, daemon_score, fds), packet, fds)
        spare = None
        for fd in fds:  # a trial that could not begin has lost them so, and the daemon knows
            os.close(fd)
        reap()


def enter(workers, keep):
    """In a trial's new process: waits for its shoal-keep to have a run, and does what node/keep/main.c does for a fresh process."""
    step = "prctl"
    try:
        if LIBC.prctl(1, signal.SIGKILL, 0, 0, 0) != 0:  # PR_SET_PDEATHSIG
            raise OSError(ctypes.get_errno(), "prctl")
        if os.getppid() != keep:
            os._exit(125)
        data, fds = receive(workers, PACKET)
        while data:
            more = workers.recv(PACKET)
            if not more:
                break
            data += more
        if not fds:
            os._exit(125)  # there is no run, or shoal-keep has not started and says why
        step = "setsid"
        os.setsid()
        step = "standard input and output"
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        output, held = fds[0], fds[1:]
        said = os.pread(1, OUTPUT_MAX, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        for fd in held:
            os.set_inheritable(fd, True)
        os.umask(0o022)
        texts = data.split(b"\0")
        step = "entering the working directory"
        os.chdir(texts[0])
        workers.sendall(b"\0")
        workers.close()
    except OSError as error:
        try:
            workers.sendall(b"%s\0%d" % (step.encode(), error.errno or errno.EIO))
        finally:
            os._exit(125)
    if said:
        os.write(1, said)
    count = int(texts[1]) + 2
    return Trial([os.fsdecode(each) for each in texts[2:count]], os.fsdecode(texts[0]), texts[count:-1])


def take_environment(variables, room):
    os.environ.clear()
    token = b""
    for each in variables:
        name, _, value = each.partition(b"=")
        os.environb[name] = value
        token = each if name == b"SHOAL_TOKEN" else token
    os.environ["PWD"] = os.getcwd()  # these two as the shell sets them that runs an entrypoint
    os.environ.setdefault("SHLVL", "0")
    overwrite(*room, token)


def take_place(trial, work):
    """Where modules held the first trial's directory they hold this trial's; what is drawn at an import is drawn anew."""
    sys.path[:] = [trial.directory + each[len(work):] if each == work or each.startswith(work + os.sep) else each
                   for each in sys.path]
    importlib.invalidate_caches()
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = sys.orig_argv[:-2] + trial.arguments
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].ORIGINAL_DIR = os.getcwd()
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "numpy.random" in sys.modules:  # that of the module random draws anew at a fork
        sys.modules["numpy.random"].seed()
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    if generator is not None:
        generator.seed()


def show(error):
    """Ends the program as Python does after an exception that nobody has caught."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == OWN:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.excepthook(type(error), error, trace)
    if isinstance(error, KeyboardInterrupt):
        interrupt()
    sys.exit(1)


def interrupt():
    """Ends this process by SIGINT, as Python does, after what Python does at its end."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def run(trial):
    """Runs the program as `python3 SCRIPT` or `python3 -m MODULE` does."""
    arguments = trial.arguments
    is_module = arguments[0] == "-m"
    main = types.ModuleType("__main__")
    main.__dict__.update(FRESH, __doc__=None)
    if "__annotations__" in FRESH:
        main.__annotations__ = {}
    keep = sys.modules["__main__"]  # its globals live as long as this call
    sys.modules["__main__"] = main
    try:
        if is_module:
            sys.argv = ["-m", *arguments[2:]]
            if HAS_PLACE:
                sys.path.insert(0, trial.directory)
            for name in ("__file__", "__cached__"):
                main.__dict__.pop(name, None)
            runpy._run_module_as_main(arguments[1])
            return
        path = os.path.abspath(arguments[0])
        sys.argv = list(arguments)
        if HAS_PLACE:
            sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        main.__file__ = path if sys.version_info >= (3, 9) else arguments[0]
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, main.__file__, "exec", dont_inherit=True), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001
        show(error)
    finally:
        del keep


# ---- the whole ------------------------------------------------------------------------------------------------------------

def serve():
    """Imports, and serves the daemon until it closes the socket. Returns in the process of a trial only: the trial."""
    channel = socket.socket(fileno=DAEMON)
    channel.set_inheritable(False)
    os.close(4)  # this script
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)  # with the thread of the daemon that started it
    poll = select.poll()
    poll.register(channel, 0)
    if poll.poll(0):  # the daemon has ended before that call
        os._exit(0)
    room = room_of_token()
    daemon_score = score()
    if daemon_score < OOM_SCORE:
        score(OOM_SCORE)
    packet, _ = receive(channel, PACKET)
    if not packet:
        os._exit(0)
    program, work, *arguments = (os.fsdecode(each) for each in packet.split(b"\0"))
    rename(["shoal: warm " + " ".join(arguments[:2])])
    os.environ.pop(ROOM, None)
    sys.argv = list(arguments)
    before = descriptors()
    try:
        import_all(work, arguments)
        check(before)
    except Cold as reason:
        channel.send(b"cold " + str(reason).replace("\n", " ").encode("utf-8", "replace")[:400])
        os._exit(0)
    os.chdir("/")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    gc.collect()
    gc.freeze()  # a collection in a trial then leaves the memory that it shares with this process alone
    channel.send(b"ready")
    try:
        offer(channel, program, daemon_score)
    except Begun as begun:
        trial = begun.trial
    take_environment(trial.variables, room)
    take_place(trial, work)
    rename(sys.orig_argv if hasattr(sys, "orig_argv") else [sys.executable, *trial.arguments])
    return trial


if __name__ == "__main__":
    run(serve())
