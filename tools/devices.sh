# The device that ./quickstart builds for: finds tool chains, and says what to install. Sourced by ./quickstart.
# tools/packages.sh is sourced before. GABBRO_TOOLCHAIN_ROOT stands for / of /opt, /usr and /etc (tests).
# `rocm_trees` are the folders of ROCm that `gabbro_survey --rocm-trees` lists.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the results are used by those who source this file

least_rocm=7   # older compilers lack targets, and older headers of hipBLASLt differ
least_cuda=12  # the first nvcc with C++20
toolchain_root=${GABBRO_TOOLCHAIN_ROOT:-}
rocm_trees=()

# version_of PROGRAM PATTERN: "7.2" of the first line of `PROGRAM --version` that matches.
version_of() { "$1" --version 2>/dev/null | sed -n "s/.*$2\([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p" | sed -n 1p; }

is_at_least() { [ -n "$1" ] && [ "${1%%.*}" -ge "$2" ]; }  # VERSION MAJOR

# candidates NAME FOLDERS...: the programs NAME of the PATH and of these folders.
candidates() {
  local name=$1 folder
  shift
  type -P "$name" || true
  for folder in "$@"; do
    if [ -x "$folder/$name" ]; then printf '%s\n' "$folder/$name"; fi
  done
}

# find_compiler NAME PATTERN LEAST FOLDERS...: sets `compiler` to the first that is new enough, or to nothing, and then
# `too_old` to "PATH is of version X", or to nothing.
find_compiler() {
  local name=$1 pattern=$2 least=$3 path version
  shift 3
  compiler='' too_old=''
  while IFS= read -r path; do
    version=$(version_of "$path" "$pattern")
    if is_at_least "$version" "$least"; then
      compiler=$path
      return
    fi
    too_old=${too_old:-$path is of version ${version:-unknown}}
  done < <(candidates "$name" "$@")
}

# The instruction sets whose kernels this processor runs, best first; tests of the others would be skipped.
processor_sets() {
  local flags
  flags=$(grep -m 1 '^flags' /proc/cpuinfo || true)
  if [[ $flags == *avx512_vnni* && $flags == *avx512vl* ]]; then printf 'avx512;'; fi
  if [[ $flags == *avx2* && $flags == *f16c* ]]; then printf 'avx2;'; fi
  printf 'scalar\n'
}

newest_first() { printf '%s\n' "$@" | sort -rV; }

find_hipcc() {
  find_compiler hipcc 'HIP version: *' "$least_rocm" "${rocm_trees[@]/%//bin}"
}

find_nvcc() {
  local folders
  mapfile -t folders < <(newest_first "$toolchain_root"/usr/local/cuda-*/bin)
  find_compiler nvcc 'release ' "$least_cuda" ${CUDA_HOME:+"$CUDA_HOME/bin"} ${CUDA_PATH:+"$CUDA_PATH/bin"} \
    "$toolchain_root/usr/local/cuda/bin" "$toolchain_root/opt/cuda/bin" "${folders[@]}"
}

# missing_headers COMPILER HEADERS...: those that are neither next to the compiler nor the system's.
missing_headers() {
  local include_folder header
  include_folder=$(dirname "$1")/../include
  shift
  for header in "$@"; do
    [ -e "$include_folder/$header" ] || [ -e "$toolchain_root/opt/rocm/include/$header" ] || [ -e "$toolchain_root/usr/include/$header" ] ||
      printf '%s ' "$header"
  done
}

os_field() {  # NAME: of /etc/os-release
  (
    # shellcheck source=/dev/null
    . "$toolchain_root/etc/os-release" 2>/dev/null
    printf '%s' "${!1:-}"
  )
}

# "debian", "fedora", "rhel", "arch", "opensuse-tumbleweed" or "suse"; what it derives from where it is none of these.
distribution() {
  local word
  for word in $(os_field ID) $(os_field ID_LIKE); do
    case $word in
      debian | ubuntu) echo debian && return ;;
      fedora | arch | opensuse-tumbleweed) echo "$word" && return ;;
      rhel | centos | rocky | almalinux) echo rhel && return ;;
      suse | sles | opensuse*) echo suse && return ;;
    esac
  done
  echo other
}

# The version of a package that apt would install; nothing: no such package.
apt_candidate() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'; }

# How to get a new enough hipcc: one command, and where the distribution's own is too old, where to get it from.
rocm_hint() {
  local amd="AMD's package repository (rocm.docs.amd.com, \"Install ROCm\")"
  case $(distribution) in
    debian)
      if is_at_least "$(apt_candidate hipcc)" "$least_rocm"; then
        echo "sudo apt-get install hipcc libamdhip64-dev librocblas-dev libhipblaslt-dev libhipblas-common-dev"
      else
        echo "sudo apt-get install rocm-hip-sdk, after adding $amd"
      fi
      ;;
    fedora)
      if is_at_least "$(os_field VERSION_ID)" 44; then
        echo "sudo dnf install rocm-hip-devel rocblas-devel hipblaslt-devel hipblas-common-devel"
      else
        echo "sudo dnf install rocm-hip-sdk, after adding $amd"
      fi
      ;;
    arch) echo "sudo pacman -S --needed rocm-hip-sdk hipblaslt" ;;
    opensuse-tumbleweed) echo "sudo zypper install rocm-hip-devel rocblas-devel hipblaslt-devel hipblas-common-devel" ;;
    rhel) echo "sudo dnf install rocm-hip-sdk, after adding $amd" ;;
    suse) echo "sudo zypper install rocm-hip-sdk, after adding $amd" ;;
    *) echo "install ROCm $least_rocm or newer with hipcc, rocBLAS and hipBLASLt" ;;
  esac
}

cuda_hint() {
  local nvidia="NVIDIA's package repository (developer.nvidia.com/cuda-downloads)"
  case $(distribution) in
    debian)
      if is_at_least "$(apt_candidate nvidia-cuda-toolkit)" "$least_cuda"; then
        echo "sudo apt-get install nvidia-cuda-toolkit"
      else
        echo "sudo apt-get install cuda-toolkit, after adding $nvidia"
      fi
      ;;
    arch) echo "sudo pacman -S --needed cuda" ;;
    fedora | rhel) echo "sudo dnf install cuda-toolkit, after adding $nvidia" ;;
    opensuse-tumbleweed | suse) echo "sudo zypper install cuda-toolkit, after adding $nvidia" ;;
    *) echo "install the CUDA tool kit $least_cuda or newer with nvcc" ;;
  esac
}

# The compute capabilities of this machine's cards, "90": as GABBRO_CUDA_TARGETS or the driver says, else as the survey does.
cuda_targets() {  # TARGETS OF THE SURVEY...
  local asked
  asked=${GABBRO_CUDA_TARGETS:-}
  if [ -z "$asked" ] && type -P nvidia-smi >/dev/null; then
    asked=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d ' .' | grep -E '^[0-9]{2,3}$' || true)
  fi
  asked=${asked:-$*}
  # shellcheck disable=SC2086  # a list of words
  printf '%s\n' ${asked//[;,]/ } | grep . | sort -un
}

# plan_rocm NAME TARGETS...: sets `plan_options` (of CMake) and `plan_targets`; where it cannot be built, `plan_problem` and `plan_hint`.
plan_rocm() {
  local name=$1 target missing
  shift
  mapfile -t plan_targets < <(printf '%s\n' "${@}" | grep . | sort -u)
  # shellcheck disable=SC2206  # a list of words
  if [ -n "${GABBRO_ROCM_TARGETS:-}" ]; then plan_targets=(${GABBRO_ROCM_TARGETS//[;,]/ }); fi
  for target in "${plan_targets[@]}"; do
    if [[ ! $target =~ ^gfx(9|1[0-9]) ]]; then
      plan_problem="$name is a $target, which no ROCm $least_rocm compiles for"
      plan_hint="the CPU is used"
      return
    fi
  done
  find_hipcc
  if [ -z "$compiler" ]; then
    plan_problem="$name ($(IFS=,; echo "${plan_targets[*]}")) needs a HIP compiler of ROCm $least_rocm or newer${too_old:+; $too_old}"
    plan_hint=$(rocm_hint)
    return
  fi
  missing=$(missing_headers "$compiler" hip/hip_runtime_api.h rocblas/rocblas.h hipblaslt/hipblaslt.h hipblas-common/hipblas-common.h)
  if [ -n "$missing" ]; then
    plan_problem="$name needs headers that are not installed with $compiler: ${missing% }"
    plan_hint=$(rocm_hint)
    return
  fi
  plan_options=(-DGABBRO_ROCM=ON "-DGABBRO_ROCM_TARGETS=$(IFS=';'; echo "${plan_targets[*]}")" "-DHIPCC=$compiler")
}

plan_cuda() {  # NAME TARGETS...: as plan_rocm
  local name=$1 target known missing
  shift
  mapfile -t plan_targets < <(cuda_targets "$@")
  if [ "${#plan_targets[@]}" -eq 0 ]; then
    plan_problem="the compute capability of $name is not known"
    plan_hint="GABBRO_CUDA_TARGETS=90 ./quickstart, with the capability of the card without its dot"
    return
  fi
  find_nvcc
  if [ -z "$compiler" ]; then
    plan_problem="$name (compute capability $(IFS=,; echo "${plan_targets[*]}")) needs nvcc of CUDA $least_cuda or newer${too_old:+; $too_old}"
    plan_hint=$(cuda_hint)
    return
  fi
  known=$("$compiler" --list-gpu-code 2>/dev/null || true)
  for target in "${plan_targets[@]}"; do
    if [ -n "$known" ] && ! grep -qx "sm_$target" <<<"$known"; then
      plan_problem="$compiler does not compile for $name, compute capability $target"
      plan_hint="install a CUDA tool kit that does (developer.nvidia.com/cuda-downloads)"
      return
    fi
  done
  missing=$(missing_headers "$compiler" cuda.h nvrtc.h cublasLt.h)
  if [ -n "$missing" ]; then
    plan_problem="$name needs headers that are not installed with $compiler: ${missing% }"
    plan_hint=$(cuda_hint)
    return
  fi
  plan_options=(-DGABBRO_CUDA=ON "-DGABBRO_CUDA_TARGETS=$(IFS=';'; echo "${plan_targets[*]}")" "-DNVCC=$compiler")
}

# plan_device DEVICE SURVEY: chooses `plan` (cpu, rocm or cuda) for DEVICE (auto, rocm or cuda) by the lines of gabbro_survey.
# With auto, what keeps a GPU from being used is a note, and the next GPU or the CPU is chosen. Otherwise it fails with 3.
plan_device() {
  local wanted=$1 survey=$2 backend target name reason fix line tried='' card_targets
  plan=cpu plan_name='' plan_options=() plan_targets=() plan_problem='' plan_hint=''
  while IFS='|' read -r backend _ _ name reason fix; do
    [ -n "$backend" ] || continue
    if [ "$wanted" != auto ] && [ "$wanted" != "$backend" ]; then continue; fi
    # One plugin for all usable cards of a maker.
    if [[ $tried == *" $backend "* ]]; then continue; fi
    if [ -n "$reason" ]; then
      plan_problem="$name cannot be used: $reason"
      plan_hint=$fix
    else
      tried+=" $backend "
      plan_problem='' plan_hint=''
      card_targets=()
      while IFS='|' read -r line _ target _ reason _; do
        if [ "$line" = "$backend" ] && [ -z "$reason" ]; then card_targets+=("$target"); fi
      done <<<"$survey"
      "plan_$backend" "$name" "${card_targets[@]}"
      if [ -z "$plan_problem" ]; then
        plan=$backend plan_name=$name
        return 0
      fi
    fi
    if [ "$wanted" = auto ]; then printf 'quickstart: note: %s; to use it: %s\n' "$plan_problem" "$plan_hint" >&2; fi
  done <<<"$survey"
  [ "$wanted" = auto ] || {
    printf 'quickstart: error: %s\nhint: %s\n' "${plan_problem:-there is no $([ "$wanted" = rocm ] && echo AMD || echo NVIDIA) GPU}" \
      "${plan_hint:-./quickstart --device auto takes what there is}" >&2
    return 3
  }
}
