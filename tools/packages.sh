# The distribution packages that Gabbro needs, and how to install them. Sourced by ./quickstart, ./test and .ci/run.
# Names are from Debian 12 and Ubuntu 24.04.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the lists are used by those who source this file

packages_build=(g++ cmake ninja-build pkg-config ca-certificates
  libfmt-dev libspdlog-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev libedit-dev libboost-context-dev libcurl4-openssl-dev libssl-dev libzstd-dev
  libpng-dev libjpeg-dev)
packages_fetch=(python3 python3-pip)
packages_test=(ccache python3 zstd libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev)
packages_python=(python3-dev python3-venv python3-pip graphviz)
packages_mpi=(openmpi-bin libopenmpi-dev)  # tests of processes, which are skipped without it
packages_page=(python3-venv chromium chromium-driver fonts-dejavu-core)
packages_coverage=(gcovr)
packages_fuzz=(clang libclang-rt-dev)
# Another version of clang-format would lay the code out differently; this one is in both distributions.
packages_lint=(git clang-tidy clang-format-14 shellcheck python3)

# Ends the script: an error that stops it, and a hint. (A check that failed is exit status 1.)
fail() {  # MESSAGE HINT
  printf '%s: error: %s\n' "${0##*/}" "$1" >&2
  printf 'hint: %s\n' "$2" >&2
  exit 2
}

say() { printf '== %s\n' "$*" >&2; }

# Prints the named packages that are not installed.
missing_packages() {
  local package status
  for package in "$@"; do
    # shellcheck disable=SC2016  # dpkg-query expands its own ${...}
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || status=
    [ "$status" = installed ] || printf '%s\n' "$package"
  done
}

# Installs what is missing of the named packages, and touches nothing when nothing is.
install_packages() {
  local missing sudo=() log
  command -v dpkg-query >/dev/null ||
    fail "this system has no dpkg" "install by hand what tools/packages.sh lists, then run cmake --preset release"
  mapfile -t missing < <(missing_packages "$@" | sort -u)
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      fail "packages are missing, and this user is not root" "run as root: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  log=$(mktemp)
  # --no-install-recommends keeps a bare machine bare; the environment keeps debconf from asking.
  if ! "${sudo[@]}" apt-get update -q >"$log" 2>&1 ||
    ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      -o DPkg::Lock::Timeout=300 "${missing[@]}" >>"$log" 2>&1; then
    tail -n 5 "$log" >&2
    fail "apt-get could not install ${missing[*]}" "the whole of its output is in $log"
  fi
  rm -f "$log"
}
