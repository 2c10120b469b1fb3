# Debian and Ubuntu packages, and how ./quickstart and ./check install the missing ones.
# Sourced by bash; needs nothing but a shell and apt.

build_packages=(
    ca-certificates gcc libc6-dev cmake ninja-build pkg-config python3 python3-venv
    libmicrohttpd-dev libjansson-dev libpcre2-dev libutf8proc-dev libhwloc-dev libedit-dev
    libzstd-dev zlib1g-dev
)
test_packages=(
    clang llvm libclang-rt-dev libcmocka-dev binutils patchelf git man-db groff-base curl
)

long_packages=(g++) # builds llama.cpp to compare with

# Prints those of the given packages that are not installed.
missing_packages() {
    local package state
    for package in "$@"; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
        [ "$state" = installed ] || printf '%s\n' "$package"
    done
}

# Installs what is missing, after saying what; status 1 when that is not possible.
install_packages() {
    local missing as_root=()
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null; then
        printf 'Not a Debian or Ubuntu system: install what these packages hold: %s\n' \
            "${missing[*]}" >&2
        return 1
    fi
    printf 'Installing: %s\n' "${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            printf 'Not root and no sudo. As root, run:\n  apt-get install %s\n' \
                "${missing[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    local log
    log=$(mktemp)
    if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$log" 2>&1 &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
            install --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -n 15 "$log" >&2
    printf 'The packages could not be installed (full log: %s).\n' "$log" >&2
    return 1
}
