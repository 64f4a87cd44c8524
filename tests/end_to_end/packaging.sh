# Installs, removes and purges a Debian package in a root of its own: packaging.sh PACKAGE ROOT, in a mount namespace.
#
# The root has the host's programs and libraries as links to a read-only mount, an empty /etc, /var and dpkg database, and the folders in
# which packages install. It exits with 99 where the host forbids the mounts.
set -eu
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_OFFLINE=1
package=$1 root=$2

fail() {
    echo "packaging.sh: $*" >&2
    exit 1
}

# Links the entries of the host's /usr/$1, but for those that follow.
link() {
    folder=$1
    shift
    mkdir -p "$root/usr/$folder"
    for entry in "/usr/$folder"/*; do
        name=${entry##*/}
        case " $* " in
        *" $name "*) ;;
        *) ln -s "/host/$folder/$name" "$root/usr/$folder/$name" ;;
        esac
    done
}

mkdir -p "$root/host" "$root/dev" "$root/proc" "$root/tmp"
mount --bind /usr "$root/host" && mount -o remount,bind,ro "$root/host" || exit 99
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null" || exit 99
mount --rbind /proc "$root/proc" || exit 99
link bin thalweg
link sbin
link lib systemd
link lib/systemd system
mkdir -p "$root/usr/share"
[ ! -e /usr/share/dpkg ] || ln -s /host/share/dpkg "$root/usr/share/dpkg"
for folder in bin sbin lib; do ln -s "usr/$folder" "$root/$folder"; done
[ ! -e /lib64 ] || { ln -s /host/lib64 "$root/usr/lib64"; ln -s usr/lib64 "$root/lib64"; }

# A database in which the packages that ours depends on are installed, in the host's versions.
database=$root/var/lib/dpkg
mkdir -p "$database/info" "$database/updates" "$database/triggers" "$root/etc" "$root/var/log" "$root/var/www/html"
dpkg-query --status libc6 libgcc-s1 passwd >"$database/status"
: >"$database/available"
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
: >"$root/etc/shadow"
: >"$root/etc/gshadow"
cp "$package" "$root/tmp/thalweg.deb"

inside() { chroot "$root" "$@"; }
# All files but those of dpkg, and the copies and the lock that programs of the package passwd make.
listing() {
    (cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./host -o -path ./proc -o -path ./var/log/dpkg.log \) -prune -o -print) \
        | grep -v -e '^./etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-$' -e '^./etc/.pwd.lock$' | sort
}
listing >"$root/../before"
passwd_before=$(cat "$root/etc/passwd" "$root/etc/group")

inside dpkg --install /tmp/thalweg.deb

inside thalweg --version | grep -q '^thalweg [0-9]' || fail "the installed program does not run"
inside grep -q '^thalweg:x:[0-9]*:[0-9]*::/nonexistent:/usr/sbin/nologin$' /etc/passwd || fail "there is no user thalweg"
for file in usr/bin/thalweg etc/thalweg/thalweg.toml etc/logrotate.d/thalweg usr/lib/systemd/system/thalweg.service \
    usr/lib/systemd/system/thalweg.socket usr/share/man/man1/thalweg.1.gz usr/share/man/man1/thalweg-run.1.gz \
    usr/share/bash-completion/completions/thalweg usr/share/zsh/vendor-completions/_thalweg \
    usr/share/fish/vendor_completions.d/thalweg.fish usr/share/doc/thalweg/copyright usr/share/doc/thalweg/changelog.gz \
    usr/share/doc/thalweg/operating.md; do
    [ -s "$root/$file" ] || fail "there is no $file"
done
[ -z "$(inside dpkg --verify thalweg)" ] || fail "installed files differ from the package's: $(inside dpkg --verify thalweg)"
[ ! -e "$root/etc/systemd/system" ] || fail "the installation has enabled a unit"

# The configuration of the package is valid, with the folder that systemd makes for the service.
mkdir "$root/var/log/thalweg"
inside thalweg serve --config /etc/thalweg/thalweg.toml --check || fail "the installed configuration is not valid"

if command -v systemctl >/dev/null; then
    inside systemctl --quiet enable thalweg.socket thalweg.service
    [ -L "$root/etc/systemd/system/sockets.target.wants/thalweg.socket" ] || fail "the socket unit cannot be enabled"
fi

# A second installation keeps a changed configuration and the enabled units.
echo '# changed' >>"$root/etc/thalweg/thalweg.toml"
inside dpkg --install /tmp/thalweg.deb
grep -q '^# changed$' "$root/etc/thalweg/thalweg.toml" || fail "the changed configuration is lost"
if command -v systemctl >/dev/null; then
    [ -L "$root/etc/systemd/system/sockets.target.wants/thalweg.socket" ] || fail "an upgrade disables the socket unit"
fi

inside dpkg --remove thalweg
[ ! -e "$root/usr/bin/thalweg" ] || fail "dpkg --remove leaves the program"
[ -e "$root/etc/thalweg/thalweg.toml" ] || fail "dpkg --remove removes the configuration"
[ -z "$(find "$root/etc/systemd" -type l 2>/dev/null)" ] || fail "dpkg --remove leaves units enabled"

mkdir -p "$root/var/lib/thalweg/acme"
inside dpkg --purge thalweg
# Folders of systemctl, now empty.
[ ! -e "$root/etc/systemd" ] || find "$root/etc/systemd" -depth -type d -empty -delete
listing >"$root/../after"
diff "$root/../before" "$root/../after" >&2 || fail "dpkg --purge leaves these files behind"
[ "$(cat "$root/etc/passwd" "$root/etc/group")" = "$passwd_before" ] || fail "dpkg --purge leaves the user thalweg"
