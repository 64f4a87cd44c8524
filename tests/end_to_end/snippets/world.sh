# Makes the world in which snippets are run: setup.sh FOLDER FIXTURES REPOSITORY, as root of new user, network and mount namespaces.
# It stays until it is killed, since the namespaces end with it.
set -eu
folder=$1 fixtures=$2 repository=$3

ip link set lo up
# Addresses and names that documents use.
for address in 10.0.0.1 192.0.2.7; do ip address add "$address/32" dev lo; done

# The host's own files cannot be changed from here. What is mounted below is in memory.
mount -o remount,bind,ro / 2>/dev/null || true
mount -t tmpfs -o size=16m none /mnt
cp -a /etc /mnt/ 2>/dev/null || true
mount --bind /mnt/etc /etc
mount -t tmpfs -o size=1g none "$folder"
for place in /srv /run /var/log /var/lib /var/cache; do mount -t tmpfs -o size=1g none "$place"; done
mkdir -p /var/lib/nginx /var/lib/lighttpd /var/lib/thalweg /var/log/nginx /var/log/thalweg /run/thalweg /mnt/images /etc/thalweg
for name in server a b mirror.example.org www.example.org mirror.lan.example; do echo "127.0.0.1 $name" >> /etc/hosts; done

# A mirror.
mkdir -p /srv/docs /srv/mirror/pub /srv/mirror/errors /srv/mirror/images /srv/staff
cd /srv/mirror
echo '<!DOCTYPE html><title>mirror</title>' > index.html
head -c 512 /dev/zero > 000
head -c 512 /dev/zero > a.txt
head -c 5000000 /dev/zero > big.iso
echo none > errors/404.html
echo none > errors/503.html
echo secret > private.txt
chmod 000 private.txt
echo file > pub/file.txt
echo staff > /srv/staff/index.html

# Files of the reader's.
cd "$folder"
for name in bench docs packaging tests Makefile; do ln -s "$repository/$name" .; done
cp "$fixtures"/*.pem "$fixtures"/*.key "$fixtures/access.log" .
cp "$fixtures/authority.pem" root.pem
cp "$fixtures/authority.pem" /etc/thalweg/staff.pem
cp "$fixtures/cert.pem" /etc/thalweg/mirror.example.org.pem
cp "$fixtures/key.pem" /etc/thalweg/mirror.example.org.key
token=0123456789abcdef0123456789abcdef
echo $token | tee token /etc/thalweg/purge-token /etc/thalweg/read-token /etc/thalweg/cluster-token > /etc/thalweg/token
printf '/index.html 1\n/a.txt 2\n' > urls.txt
printf '/index.html\n    /a.txt\n\n/big.iso think=1\n' > shop.log
printf 'picture' > photo.jpg
printf '[[site]]\nroot = "/srv/mirror"\n' > thalweg.toml
printf '#!/bin/sh\nexec thalweg serve /srv/mirror --listen 127.0.0.1:8080\n' > server
chmod +x server

echo up
exec sleep 600
