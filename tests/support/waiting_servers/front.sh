# nginx before a server that waits: front.sh PORT SERVER MODE [NUMBER…]
set -eu
port=$1 server=$2
shift 2
folder=$(mktemp -d)
cat > "$folder/nginx.conf" <<END
user root;
daemon off;
pid nginx.pid;
error_log error.log;
events { worker_connections 4096; }
http {
  access_log off;
  upstream slow { server 127.0.0.1:$((port + 1000)); keepalive 64; }
  server {
    listen 127.0.0.1:$port;
    location / { proxy_pass http://slow; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
END
"$server" --port $((port + 1000)) "$@" &
exec nginx -p "$folder" -c nginx.conf
