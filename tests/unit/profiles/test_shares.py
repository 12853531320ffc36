from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from benchkit.models.profile import CATEGORIES, Category, Frame, Profile, ValueType
from benchkit.profiles.shares import Shares, shares

GO = [f"nethttp-go1.{minor}.pb.gz" for minor in (16, 19, 20, 21, 23, 25, 26)]
NET_HTTP = [*GO, "nethttp-go1.16-2000.pb.gz", "nethttp-go1.26-2000.pb.gz", "nethttp-go1.26-busy.pb.gz"]
SHIPPED = [
    f"shipped-{backend}.pb.gz"
    for backend in (
        *("nethttp", "fasthttp", "gnet", "gnet-2000", "netpoll", "hertz"),
        *("gostring", "fcgi", "fileserver", "fileserver-listing"),
    )
]
"""benchkit's own backends."""
EVENT_LOOPS = ["gnet", "gnet-2000", "netpoll", "hertz"]
GO_SERVERS = [
    *NET_HTTP,
    "fasthttp.pb.gz",
    "fasthttp-2000.pb.gz",
    "gnet.pb.gz",
    "netpoll.pb.gz",
    "hertz.pb.gz",
    "fcgi.pb.gz",
    *SHIPPED,
]
NGINX = [f"nginx-{what}.perf.txt.gz" for what in ("return", "file", "http", "fastcgi", "short")]
UNDER_PERF = ["nethttp.perf.txt.gz", "node.perf.txt.gz", "shipped-node.perf.txt.gz", *NGINX]
SERVERS = [*GO_SERVERS, *UNDER_PERF]


def profile_of(stack: Sequence[str]) -> Profile:
    """Return a profile of one sample; frames innermost first, those of the kernel with the prefix `k:`."""
    frames = tuple(Frame(name.removeprefix("k:"), kernel=name.startswith("k:")) for name in stack)
    return Profile("perf", ValueType("samples", "count"), frames, (tuple(range(len(frames))),), (1,))


def category_of(stack: str) -> Category:
    found = shares(profile_of(stack.split(" < "))).categories
    return max(found, key=found.__getitem__)


@pytest.mark.parametrize("name", SERVERS)
def test_shares_of_every_server_add_up_with_few_others(name: str, recorded: Callable[[str], Profile]) -> None:
    found = shares(recorded(name))
    assert tuple(found.categories) == CATEGORIES
    assert sum(found.categories.values()) == pytest.approx(1, abs=1e-12)
    assert min(found.categories.values()) >= 0
    assert found.categories["other"] < 0.03
    assert found.waiting == sum(found.categories[each] for each in ("scheduler", "netpoll", "epoll"))
    assert found.total == sum(recorded(name).weights)


@pytest.mark.parametrize("name", [*NET_HTTP, "fasthttp.pb.gz", "fasthttp-2000.pb.gz"])
def test_the_cumulative_shares_of_study_4_match_the_headline(name: str, recorded: Callable[[str], Profile]) -> None:
    found = shares(recorded(name))
    figures = found.cumulative
    assert list(figures) == ["mcall", "schedule", "findrunnable", "netpoll", "epollwait"]
    assert figures["mcall"] >= figures["schedule"] >= figures["findrunnable"] > 0
    assert figures["netpoll"] >= figures["epollwait"] > 0
    # All of mcall is scheduling, but for collections that findRunnable begins; waking others is scheduling without it.
    assert found.waiting is not None
    assert figures["mcall"] - 0.02 <= found.waiting <= figures["mcall"] + 0.1


def test_event_loops_wait_in_epoll_and_not_under_the_scheduler(recorded: Callable[[str], Profile]) -> None:
    for name in ("gnet.pb.gz", "netpoll.pb.gz", "hertz.pb.gz", *(f"shipped-{n}.pb.gz" for n in EVENT_LOOPS)):
        found = shares(recorded(name))
        assert found.categories["epoll"] > 0.03, name
        assert found.categories["netpoll"] == 0, name
        assert found.categories["http"] > 0, name


GO_CALL = "internal/runtime/syscall/linux.Syscall6 < syscall.RawSyscall6 < syscall.Syscall"
SERVED = "net/http.(*conn).serve < runtime.goexit"
LOOKING = "runtime.schedule < runtime.park_m < runtime.mcall"


GNET = "main.(*engine).OnTraffic < github.com/panjf2000/gnet/v2.(*eventloop).read"


@pytest.mark.parametrize(
    ("stack", "category"),
    [
        (f"runtime.epollwait < runtime.netpoll < runtime.findrunnable < {LOOKING}", "netpoll"),
        (f"internal/runtime/syscall.EpollWait < runtime.netpoll < runtime.findRunnable < {LOOKING}", "netpoll"),
        (f"runtime.nanotime < runtime.netpoll < runtime.findRunnable < {LOOKING}", "netpoll"),
        ("runtime.epollwait < runtime.netpoll < runtime.sysmon < runtime.mstart1", "scheduler"),
        ("runtime.epollwait < runtime.netpoll < runtime.startTheWorldWithSema < runtime.gcStart", "gc"),
        (f"runtime.futex < runtime.futexsleep < runtime.notesleep < runtime.stopm < {LOOKING}", "scheduler"),
        (f"runtime.lock2 < runtime.findrunnable < {LOOKING}", "scheduler"),
        (f"bytes.Trim < benchkit/backends/kit/http1.parseField < main.(*engine).answerAll < {GNET}", "http"),
        (f"main.(*engine).answerAll < {GNET}", "handler"),
        (f"runtime.runqgrab < runtime.runqsteal < runtime.stealWork < runtime.findRunnable < {LOOKING}", "scheduler"),
        (f"runtime.futex < runtime.wakep < runtime.ready < runtime.goready < runtime.chansend < {SERVED}", "scheduler"),
        (f"runtime.gopark < runtime.netpollblock < internal/poll.(*FD).Read < {SERVED}", "scheduler"),
        (f"runtime.newproc1 < runtime.newproc.func1 < runtime.systemstack < runtime.newproc < {SERVED}", "scheduler"),
        (f"runtime.write1 < runtime.netpollBreak < runtime.wakeNetPoller < time.Sleep < {SERVED}", "scheduler"),
        (f"{GO_CALL} < syscall.write < syscall.Write < internal/poll.(*FD).Write < {SERVED}", "read/write"),
        (f"syscall.Syscall < syscall.read < syscall.Read < internal/poll.(*FD).Read < {SERVED}", "read/write"),
        (f"runtime.exitsyscall < syscall.Syscall < syscall.read < {SERVED}", "read/write"),
        (f"{GO_CALL} < golang.org/x/sys/unix.writev < golang.org/x/sys/unix.Writev < main.x", "read/write"),
        (f"{GO_CALL} < github.com/cloudwego/netpoll.sendmsg < main.onRequest", "read/write"),
        (f"{GO_CALL} < syscall.openat < os.open < net/http.serveFile < {SERVED}", "read/write"),
        (
            f"syscall.Syscall6 < syscall.accept4 < internal/poll.accept < net.(*TCPListener).Accept < {SERVED}",
            "accept/close",
        ),
        (f"{GO_CALL} < syscall.Close < internal/poll.(*FD).destroy < net.(*netFD).Close < {SERVED}", "accept/close"),
        (f"runtime.netpollopen < internal/poll.(*pollDesc).init < internal/poll.(*FD).Init < {SERVED}", "accept/close"),
        (
            f"internal/poll.setDeadlineImpl < internal/poll.(*FD).SetReadDeadline < net.(*conn).SetReadDeadline < {SERVED}",
            "http",
        ),
        (
            f"{GO_CALL} < golang.org/x/sys/unix.EpollWait < github.com/panjf2000/gnet/v2/pkg/netpoll.(*Poller).Polling",
            "epoll",
        ),
        (
            f"{GO_CALL} < github.com/cloudwego/netpoll.EpollWait < github.com/cloudwego/netpoll.(*defaultPoll).Wait",
            "epoll",
        ),
        ("runtime.scanobject < runtime.gcDrain < runtime.gcBgMarkWorker.func2 < runtime.systemstack", "gc"),
        (f"runtime.gcAssistAlloc < runtime.mallocgc < runtime.newobject < {SERVED}", "gc"),
        (f"runtime.(*sweepLocked).sweep < runtime.(*mcentral).cacheSpan < runtime.mallocgc < {SERVED}", "gc"),
        (f"gcWriteBarrier < net/http.(*response).Write < {SERVED}", "gc"),
        ("internal/runtime/gc/scan.ScanSpanPackedAVX512 < runtime.scanSpan < runtime.gcDrain", "gc"),
        (f"runtime.memclrNoHeapPointers < runtime.mallocgc < runtime.makeslice < {SERVED}", "allocation"),
        (f"runtime.copystack < runtime.newstack < runtime.morestack < {SERVED}", "allocation"),
        (f"runtime.lock2 < runtime.selectgo < {SERVED}", "channel/lock"),
        (f"sync.(*Mutex).lockSlow < sync.(*Mutex).Lock < {SERVED}", "channel/lock"),
        (f"internal/sync.(*Mutex).Lock < sync.(*Mutex).Lock < {SERVED}", "channel/lock"),
        (f"runtime.memmove < bufio.(*Writer).Write < net/http.(*response).Write < main.hello < {SERVED}", "http"),
        (f"fmt.Sprintf < main.hello < net/http.HandlerFunc.ServeHTTP < {SERVED}", "handler"),
        (f"shop.Cart.Add < shop.Serve < net/http.HandlerFunc.ServeHTTP < {SERVED}", "handler"),
        (f"benchkit/backends/kit.(*App).ServeHTTP < net/http.serverHandler.ServeHTTP < {SERVED}", "handler"),
        ("shop/web.Hello < github.com/valyala/fasthttp.(*Server).serveConn", "handler"),
        ("time.Now < github.com/valyala/fasthttp.(*Server).serveConn", "http"),
        ("github.com/x/y.(*T).OnTraffic < github.com/panjf2000/gnet/v2.(*eventloop).read", "handler"),
        ("encoding/binary.Read < net/http/fcgi.(*record).read < net/http/fcgi.(*child).serve", "fastcgi"),
        ("main.hello < net/http.HandlerFunc.ServeHTTP < net/http/fcgi.(*child).serveRequest", "handler"),
        ("runtime.systemstack", "other"),
        ("main.main < runtime.main < runtime.goexit", "other"),
        ("ngx_http_fastcgi_create_request", "fastcgi"),
        ("ngx_http_parse_request_line < [nginx]", "http"),
        ("_int_malloc < malloc < ngx_alloc < ngx_http_create_request", "allocation"),
        ("writev < ngx_writev < ngx_linux_sendfile_chain", "read/write"),
        ("JS:*hello /srv/app.js:8:15 < JS:*parserOnIncoming node:_http_server:1026:26", "handler"),
        ("Builtins_LoadIC < LazyCompile:*end node:_http_outgoing:1034:45 < JS:*hello /srv/app.js:8:15", "http"),
        ("v8::internal::Scavenger::Process < v8::internal::Heap::Scavenge < JS:*hello /srv/app.js:8:15", "gc"),
        ("v8::internal::compiler::PipelineImpl::Run < JS:*hello /srv/app.js:8:15", "other"),
        ("llhttp__internal_execute < node::(anonymous namespace)::Parser::Execute < uv__read < uv_run", "http"),
    ],
)
def test_stacks_without_the_kernel(stack: str, category: Category) -> None:
    assert category_of(stack) == category


IN_CALL = "k:do_syscall_64 < k:entry_SYSCALL_64_after_hwframe"
RECEIVED = "k:tcp_v4_rcv < k:net_rx_action < k:handle_softirqs"


@pytest.mark.parametrize(
    ("stack", "category"),
    [
        (f"k:tcp_sendmsg < k:sock_write_iter < k:ksys_write < {IN_CALL} < [nginx]", "read/write"),
        (
            f"k:kmem_cache_free < k:tcp_ack < {RECEIVED} < k:do_writev < {IN_CALL} < writev",
            "read/write",
        ),
        (f"{IN_CALL} < writev < ngx_writev", "read/write"),
        (f"k:vfs_writev < k:do_writev < {IN_CALL} < [nginx]", "read/write"),
        (f"k:inet_csk_accept < k:__sys_accept4 < {IN_CALL} < accept4", "accept/close"),
        (f"k:__x64_sys_close < {IN_CALL} < [nginx]", "accept/close"),
        (f"k:ep_send_events < k:do_epoll_wait < {IN_CALL} < epoll_wait < [nginx]", "epoll"),
        (f"k:do_epoll_wait < {IN_CALL} < runtime.netpoll < runtime.findRunnable < {LOOKING}", "netpoll"),
        (f"k:ep_poll < k:do_epoll_wait < {IN_CALL} < runtime.netpoll < runtime.sysmon", "scheduler"),
        (f"k:ksys_write < {IN_CALL} < runtime.write1 < runtime.netpollBreak < {LOOKING}", "scheduler"),
        (f"k:futex_wake < k:do_futex < {IN_CALL} < runtime.futex < runtime.wakep < {SERVED}", "scheduler"),
        (f"{RECEIVED} < k:asm_common_interrupt < main.hello < {SERVED}", "kernel network"),
        (f"k:exc_page_fault < k:asm_exc_page_fault < main.hello < {SERVED}", "handler"),
        (
            f"k:tcp_recvmsg < k:__el0_svc_common < k:invoke_syscall < k:el0_svc < syscall.read < {SERVED}",
            "read/write",
        ),
        ("k:__arm64_sys_sendto < k:invoke_syscall < k:el0_svc < [nginx]", "read/write"),
    ],
)
def test_stacks_with_the_kernel(stack: str, category: Category) -> None:
    assert category_of(stack) == category


def test_a_profile_without_samples_has_no_shares() -> None:
    nothing = Profile("pprof", ValueType("cpu", "nanoseconds"), (), (), ())
    assert shares(nothing) == Shares(0, {}, {})
    assert shares(nothing).waiting is None
