# Sourced by the scripts that run programs of this repository.
# shellcheck shell=bash

# build debug|release PACKAGE TARGET...: leaves the directory of the binaries in $bin. Each package alone has other features of its
# dependencies, which cargo would compile once more; scripts/test compiles all programs together, before, and sets TAUTLINE_BUILT.
build() {
    local profile=$1 package=$2
    shift 2
    bin=${CARGO_TARGET_DIR:-target}/$profile
    [ -z "${TAUTLINE_BUILT-}" ] || return 0
    printf '* building (the first time takes minutes)\n'
    cargo build --quiet --profile "${profile/debug/dev}" --package "$package" "$@"
}
