#!/usr/bin/env bash
# Makes build/ingot-VERSION-linux-ARCH: the program, the libraries that have no static archive in
# lib/, and their licences. The folder runs on a Linux of the same architecture with
# glibc >= 2.34 and nothing installed, when it was built on Debian 12.
set -eu
cd "$(dirname "$0")/.."

limit_kib=$((28 * 1024))
newest_glibc=2.34
build_glibc=2.36 # what Debian 12 has; a newer one brings newer symbols into any program

cmake --preset portable >/dev/null
cmake --build --preset portable --target ingot

version=$(build/portable/ingot --version | awk '{ print $2 }')
folder=build/ingot-$version-linux-$(uname -m)
rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/licenses"
strip -o "$folder/ingot" build/portable/ingot
patchelf --force-rpath --set-rpath '$ORIGIN/lib' "$folder/ingot"
cp LICENSE README.md build/portable/ingot.1 "$folder/"

# The C library and its parts stay the system's.
ldd build/portable/ingot | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv|libutil)\.so|^ld-linux' |
    while read -r name path; do
        cp -L "$path" "$folder/lib/$name"
        chmod 644 "$folder/lib/$name"
        strip "$folder/lib/$name"
        patchelf --force-rpath --set-rpath '$ORIGIN' "$folder/lib/$name"
        package=$(dpkg-query -S "$(realpath "$path")" "$path" "${path#/usr}" 2>/dev/null |
            head -n 1 | cut -d: -f1) || true
        if [ -n "$package" ] && [ -f "/usr/share/doc/$package/copyright" ]; then
            cp "/usr/share/doc/$package/copyright" "$folder/licenses/$package"
        else
            echo "portable: no licence found for $name" >&2
        fi
    done

fail() {
    echo "portable: $1" >&2
    exit 1
}

size=$(du -sk "$folder" | cut -f1)
[ "$size" -le $limit_kib ] || fail "the folder has $size KiB, at most $limit_kib"

outside=$(env -i LD_LIBRARY_PATH= ldd "$folder/ingot" | awk '$3 ~ /^\// { print $3 }' |
    grep -vE "^$(realpath "$folder")/|/(libc|libm|libdl|librt|libpthread|libresolv)\.so" || true)
[ -z "$outside" ] || fail "taken from the system: $outside"

newest=$(find "$folder" -type f \( -name ingot -o -name "*.so*" \) -exec objdump -T {} + |
    grep -oE 'GLIBC_[0-9.]+' | sort -uV |
    tail -n 1)
here=$(getconf GNU_LIBC_VERSION | awk '{ print $2 }')
if [ "$(printf '%s\n' "$newest" "GLIBC_$newest_glibc" | sort -V | tail -n 1)" != \
    "GLIBC_$newest_glibc" ]; then
    [ "$(printf '%s\n' "$here" $build_glibc | sort -V | tail -n 1)" = $build_glibc ] &&
        fail "needs $newest, at most GLIBC_$newest_glibc"
    echo "portable: built with glibc $here, so it needs $newest; build on Debian 12 to share it"
fi
env -i "$folder/ingot" --version
echo "$folder: $size KiB, $(find "$folder/lib" -type f | wc -l) libraries, needs $newest"
