"""Caching reverse proxies on one CPU, each configured by its own means to cache by RFC 9111 what one origin on 127.0.0.1 answers.

What a server does not do by default, and its documentation offers for a shared cache that obeys the origin, is switched on."""

import contextlib
import os

from . import process
from .file_servers import FileServer, event_mpm

STORE_MB = 1024


class CachingServer(FileServer):
    """A cache in front of `http://127.0.0.1:{origin}/`."""

    origin = None

    def before(self, origin):
        self.origin = origin
        return self


class Thalweg(CachingServer):
    program, version_arguments = "thalweg", ["--version"]

    def __init__(self, program, driver):
        super().__init__(program)
        self.driver, self.name = driver, f"thalweg {driver}"

    def command(self, folder, www, port, log):
        config = folder / "thalweg.toml"
        config.write_text(f"""[disk_cache]
volumes = [{{ path = "{folder}/volume", size = "{STORE_MB}MiB" }}]
[[origin]]
name = "origin"
url = "http://127.0.0.1:{self.origin}/"
[[site]]
[[site.mount]]
path = "/"
origins = ["origin"]
methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "M-SEARCH"]
negative_time_max = "24h"
""")
        return [self.path, "serve", "--config", str(config), "--listen", f"127.0.0.1:{port}", "--driver", self.driver]


class Nginx(CachingServer):
    """proxy_cache with its lock against floods, revalidation and background updates."""

    name, program = "nginx", "nginx"
    store_mb = STORE_MB

    def command(self, folder, www, port, log):
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = folder / "nginx.conf"
        config.write_text(f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; sendfile on; tcp_nopush on; open_file_cache max=10000 inactive=600s; keepalive_requests 1000000000; keepalive_timeout 600;
  {temporary}
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=c:64m max_size={self.store_mb}m inactive=10d use_temp_path=off;
  upstream origin {{ server 127.0.0.1:{self.origin}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_cache c; proxy_cache_lock on; proxy_cache_revalidate on; proxy_cache_background_update on; proxy_cache_use_stale updating;
    }}
  }}
}}
""")
        # The worker is another user.
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o644)
        return [self.path, "-p", str(folder), "-c", str(config)]

    @staticmethod
    def disk_bytes(folder):
        """The blocks of what it has stored, as `du` counts them."""
        total = 0
        for folder, _, files in os.walk(folder / "cache"):
            for name in files:
                with contextlib.suppress(OSError):
                    total += os.stat(f"{folder}/{name}").st_blocks * 512
        return total


class Varnish(CachingServer):
    """Its built-in rules without grace, which would use stale responses that nothing allows."""

    name, program, version_arguments = "varnish", "varnishd", ["-V"]

    def command(self, folder, www, port, log):
        config = folder / "default.vcl"
        config.write_text(f"""vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{self.origin}"; }}
sub vcl_backend_response {{ set beresp.grace = 0s; set beresp.keep = 1d; }}
""")
        return [self.path, "-F", "-a", f"127.0.0.1:{port}", "-f", str(config), "-s", f"malloc,{STORE_MB}m", "-n", str(folder / "work"),
                "-p", "thread_pools=1", "-p", "workspace_client=64k"]


class TrafficServer(CachingServer):
    """One network thread; a RAM cache in front of a cache on disk, as by default."""

    name, program, version_arguments = "trafficserver", "traffic_server", ["-V"]

    def command(self, folder, www, port, log):
        for name in ("etc", "run", "log", "cache"):
            (folder / name).mkdir(exist_ok=True)
        (folder / "etc" / "storage.config").write_text(f"{folder}/cache {STORE_MB}M\n")
        (folder / "etc" / "remap.config").write_text(f"map / http://127.0.0.1:{self.origin}/\n")
        (folder / "etc" / "ip_allow.yaml").write_text("ip_allow:\n- apply: in\n  ip_addrs: 127.0.0.0/8\n  action: allow\n  methods: ALL\n")
        for name in ("plugin.config", "cache.config", "hosting.config", "parent.config", "volume.config"):
            (folder / "etc" / name).write_text("")
        (folder / "etc" / "records.config").write_text(f"""CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.bin_path STRING /usr/bin
CONFIG proxy.config.local_state_dir STRING {folder}/run
CONFIG proxy.config.log.logfile_dir STRING {folder}/log
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.exec_thread.autoconfig.enabled INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.admin.user_id STRING nobody
CONFIG proxy.config.http.cache.http INT 1
CONFIG proxy.config.http.cache.required_headers INT 0
CONFIG proxy.config.reverse_proxy.enabled INT 1
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.http.insert_age_in_response INT 1
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 600
""")
        runroot = folder / "runroot.yaml"
        runroot.write_text(f"prefix: {folder}\nsysconfdir: {folder}/etc\nlocalstatedir: {folder}\nruntimedir: {folder}/run\nlogdir: {folder}/log\n"
                           f"bindir: /usr/bin\nsbindir: /usr/sbin\nlibexecdir: /usr/lib/trafficserver/modules\ncachedir: {folder}/cache\n")
        # It refuses to be the superuser.
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o644)
        return [self.path, f"--run-root={runroot}"]


class Apache(CachingServer):
    """mod_cache with its disk store, and its lock against floods."""

    name, program = "apache", "apache2"

    def command(self, folder, www, port, log):
        (folder / "cache").mkdir(exist_ok=True)
        for path in (folder, folder / "cache"):
            path.chmod(0o777)
        return [self.path, "-DFOREGROUND", "-f", str(event_mpm(folder, port, ["proxy", "proxy_http", "cache", "cache_disk"], f"""CacheRoot {folder}/cache
CacheEnable disk /
CacheQuickHandler on
CacheLock on
CacheMaxFileSize 1073741824
ProxyPass / http://127.0.0.1:{self.origin}/
ProxyPreserveHost on
"""))]


def all_servers(thalweg, drivers=("uring", "epoll")):
    """Those that are here."""
    found = [Thalweg(thalweg, driver) for driver in drivers]
    found += [kind(path) for kind in (Nginx, Varnish, TrafficServer, Apache) if (path := process.on_path(kind.program))]
    return found


def missing():
    return [kind.program for kind in (Nginx, Varnish, TrafficServer, Apache) if not process.on_path(kind.program)]
