#include "node/daemon/workers/inherited.h"

#include <stdio.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

/* What programs of a lab need of their machine: the person, the language, ways to the network, places of files and caches, and
 * how the machine's network cards are to be used. */
const char *const inherited_names[] = {
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_*",
    "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_*", "MAMBA_*", "PYENV_ROOT", "PIP_*", "UV_*",
    "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH", "MODULEPATH", "MODULESHOME", "LOADEDMODULES", "LMOD_*",
    "CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH", "CUDA_ROOT", "CUDNN_*", "NVIDIA_*", "ROCM_PATH",
    "NCCL_*", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_*",
    "HF_*", "HUGGINGFACE_*", "TRANSFORMERS_*", "DIFFUSERS_*", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCH_CUDA_ARCH_LIST",
    "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TIKTOKEN_CACHE_DIR", "NLTK_DATA", "KERAS_HOME", "KERAS_BACKEND",
    "TFDS_DATA_DIR", "NUMBA_CACHE_DIR", "MPLCONFIGDIR", "MPLBACKEND", NULL};

/* Programs decide by these whether another launcher has started them, and which rank they are. Those of the daemon belong to
 * the job or the shell that the daemon was started from. */
const char *const inherited_never[] = {
    "SLURM_*", "SLURMD_*", "SBATCH_*", "SRUN_*", "PMI_*", "PMI2_*", "PMIX_*", "OMPI_*", "PRTE_*", "MV2_*", "MPI_LOCAL*", "MPIR_*",
    "I_MPI_*", "HYDRA_*", "HYDI_*", "PALS_*", "JSM_*", "FLUX_*", "LSB_*", "PBS_*",
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
    "ROLE_NAME", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_*", "PET_*", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "SHOAL_SOCKET", "SHOAL_TOKEN", "SHOAL_EXPERIMENT", "SHOAL_TRIAL", "SHOAL_ATTEMPT", "SHOAL_RANK",
    "SHOAL_SIZE", "SHOAL_SEED", "SHOAL_PORTS", "SHOAL_HPARAMS", "SHOAL_HPARAMS_FILE", "SHOAL_HP_*", "SHOAL_OUTPUT_DIR",
    "SHOAL_CHECKPOINT_DIR", "SHOAL_RESTORE_DIR", "SHOAL_TENSORBOARD_DIR", NULL};

/* True if a name of `bytes` fits "NAME" or "PREFIX*". */
static bool fits(const char *pattern, size_t pattern_bytes, const char *name, size_t bytes)
{
    bool is_prefix = pattern_bytes > 0 && pattern[pattern_bytes - 1] == '*';
    pattern_bytes -= is_prefix;
    return (is_prefix ? bytes >= pattern_bytes : bytes == pattern_bytes) && memcmp(pattern, name, pattern_bytes) == 0;
}

static const char *find(const char *const *patterns, const char *name, size_t bytes)
{
    for (; *patterns != NULL; patterns++) {
        if (fits(*patterns, strlen(*patterns), name, bytes)) {
            return *patterns;
        }
    }
    return NULL;
}

const char *inherited_refusal(const char *rule, char text[256])
{
    size_t bytes = strspn(rule, NAME_CHARS);
    bool is_prefix = rule[bytes] == '*' && rule[bytes + 1] == '\0';
    if (bytes == 0 || (rule[0] >= '0' && rule[0] <= '9') || (rule[bytes] != '\0' && rule[bytes] != '=' && !is_prefix)) {
        (void)snprintf(text, 256, "--worker-env wants NAME, NAME=VALUE or PREFIX* and not '%.100s'", rule);
        return text;
    }
    const char *never = find(inherited_never, rule, bytes);
    if (never != NULL) {
        (void)snprintf(text, 256,
                       "--worker-env %.*s: %s never passes to programs, since they decide by it which launcher has started them "
                       "and as which rank",
                       (int)(bytes < 60 ? bytes : 60), rule, never);
        return text;
    }
    return NULL;
}

bool inherited_passes(const char *variable, const struct inherited_rules *rules)
{
    size_t bytes = strcspn(variable, "=");
    if (find(inherited_never, variable, bytes) != NULL) {
        return false;
    }
    if (find(inherited_names, variable, bytes) != NULL) {
        return true;
    }
    for (size_t i = 0; i < rules->count; i++) {
        const char *rule = rules->items[i];
        if (strchr(rule, '=') == NULL && fits(rule, strlen(rule), variable, bytes)) {
            return true;
        }
    }
    return false;
}
