#!/bin/sh
# php-fpm behind nginx, as the user who starts it: php-fpm.sh PORT
set -e
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
PATH=$PATH:/usr/sbin:/sbin
for php_fpm in /usr/sbin/php-fpm[0-9]* php-fpm; do test -x "$php_fpm" && break; done
cat > "$folder/fpm.conf" <<EOF
[global]
error_log = /dev/stderr
daemonize = no
[www]
user = $(id -un)
listen = $folder/fpm.sock
listen.backlog = 511
clear_env = no
pm = static
pm.max_children = 4
EOF
cat > "$folder/nginx.conf" <<EOF
daemon off;
user $(id -un);
pid $folder/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path $folder;
  fastcgi_temp_path $folder;
  proxy_temp_path $folder;
  scgi_temp_path $folder;
  uwsgi_temp_path $folder;
  server {
    listen 127.0.0.1:$1;
    location / {
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME $here/index.php;
      fastcgi_pass unix:$folder/fpm.sock;
    }
  }
}
EOF
stop() {
  kill "$fpm" "$nginx" 2>/dev/null || : # both have ended where the whole group was told to
  wait
  rm -r "$folder"
}
trap stop EXIT
trap exit TERM INT
"$php_fpm" --allow-to-run-as-root --fpm-config "$folder/fpm.conf" &
fpm=$!
until test -S "$folder/fpm.sock"; do kill -0 "$fpm" || exit 1; sleep 0.05; done # nginx would answer 502 until then
nginx -c "$folder/nginx.conf" &
nginx=$!
wait
