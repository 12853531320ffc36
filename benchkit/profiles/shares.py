"""Shares of a profile by category: every sample belongs to exactly one, so that shares add up to one.

Rules assign samples to categories by the names of functions, old and new ones. A rule applies to one frame and may have
conditions on the callers of the frame. `shares` walks a stack from the innermost frame outward. The first frame to
which a rule applies decides, and among several rules the one that is first in the list. Functions that no rule names
(memmove, nanotime, maps, runtime locks, futex) therefore belong to their callers.

Names come from Go 1.16 to 1.26, fasthttp 1.62, gnet 2.7, netpoll 0.7, hertz 0.10 and nginx. Others come from Node 20
(as perf sees it with --perf-basic-prof), glibc and Linux. The tests compare them with recorded profiles of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from benchkit.models.profile import CATEGORIES, STUDIED, WAITING, Category, Frame, Profile


@dataclass(frozen=True)
class Rule:
    """Functions of a category: those whose label matches from its start, if the other conditions hold."""

    category: Category
    function: re.Pattern[str]
    kernel: bool = False
    """True if the rule is about kernel functions, False if it is about all others."""
    under: re.Pattern[str] | None = None
    """Pattern that one of the callers, direct or indirect, must match."""
    not_under: re.Pattern[str] | None = None
    """Pattern that no caller may match."""
    called_by: re.Pattern[str] | None = None
    """Pattern that the direct caller must match."""


def _names(package: str, names: str) -> re.Pattern[str]:
    """Return the pattern of a Go package's functions, from blank-separated patterns, with closures (`name.func1`)."""
    return re.compile(rf"(?:{package})\.(?:{'|'.join(names.split())})(?:\.|$)")


_SYSTEM_CALLS = r"syscall|golang\.org/x/sys/unix"
_TRANSFERS = (
    r"p?(?:read|write)v?(?:64|2)?|recv(?:from|msg|mmsg)?|send(?:to|msg|mmsg)?|sendfile(?:64)?|splice|copy_file_range"
)
_OPENING = r"open(?:at2?)?(?:64)?|creat|[fl]?stat(?:64|x)?|new[fl]?stat(?:at)?|fstatat(?:64)?|lseek|readlink(?:at)?|getdents(?:64)?"
_CONNECTING = r"accept4?|close|shutdown|connect|socket|bind|listen|[gs]etsockopt|getpeername|getsockname"
_STANDARD_LIBRARY = (
    r"(?:bufio|bytes|cmp|compress|container|context|crypto|encoding|errors|expvar|fmt|hash|html|internal|io|iter|log|maps"
    r"|math|mime|net|os|path|reflect|regexp|runtime|slices|sort|strconv|strings|sync|syscall|text|time|unicode|unique|vendor)[./]"
)
_SERVERS = r"github\.com/(?:valyala/|panjf2000/|cloudwego/|bytedance/gopkg/)"
_NOT_THEIRS = re.compile(rf"(?!{_STANDARD_LIBRARY}|{_SERVERS}|golang\.org/x/)[^.]*\.")
_JAVASCRIPT = r"(?:JS|LazyCompile|Function):\S*"
_LIBC = r"(?:__(?:GI_+|libc_)?)?"
_ENTRY = r"(?:_*(?:x64|arm64|ia32|se|do)?_*sys|ksys|do|vfs)_"
"""Prefixes of the kernel's functions for a system call, from its entry to the function that does the work."""
_FIND_RUNNABLE = re.compile(r"runtime\.find[rR]unnable$")
_GO_RUNTIME = re.compile(r"runtime\.")
_IN_CALL = re.compile(r"do_syscall_|entry_SYSCALL|el0_svc|invoke_syscall|do_el0_svc|__(?:x64|arm64|ia32|se)_sys_")
_KERNEL_NETWORK = re.compile(
    r"_{0,4}(?:tcp|ip6?|inet6?|udp|icmp|sock|sk|skb|nf|ipt|dev|netif|net|napi|eth|neigh|fib|qdisc|br|veth|virtnet|vlan|dst|unix)_"
    r"|_{0,2}(?:alloc|kfree|consume|copy|release_sock)_?skb|loopback_xmit|process_backlog|_*sched_?net|csum_partial"
    r"|_*copy_(?:from|to)_iter|_*release_sock$|_*lock_sock"
)


_GO_RUNTIME_RULES = (
    # The network poller called by a thread that looks for work; for other callers (sysmon, the end of a collection) it
    # counts as the caller.
    Rule("netpoll", _names("runtime", "netpoll epollwait"), under=_FIND_RUNNABLE),
    Rule(
        "scheduler",
        _names(
            "runtime",
            r"""mcall mstart[01]? schedule find[rR]unnable execute resetspinning stealWork sysmon
            park_m gopark goparkunlock gogo mPark stopm startm handoffp wakep gcstopm
            Gosched gosched_m goschedImpl gopreempt_m preemptPark asyncPreempt2 exitsyscall0 exitsyscallNoP
            goexit[01] gdestroy newproc1? ready goready \w+\.goready readyWithTime injectglist
            runq\w+ globrunq\w+ checkTimers\w* \(\*timers\)\.check netpollBreak wakeNetPoller
            \(\*gcControllerState\)\.findRunnableGCWorker""",
        ),
    ),
    Rule("scheduler", re.compile(r"gogo$")),
    Rule(
        "gc",
        _names(
            "runtime",
            r"""_GC gc[A-Z]\w* gcmarknewobject gcenable bgsweep bgscavenge sweepone finishsweep_m
            markroot\w* scan[a-zA-Z]+ greyobject wbBuf\w* deduct(?:Sweep|Assist)Credit freeSomeWbufs
            runfinq runFinalizers runCleanups runSafePointFn freeDeadSpanSPMCs clearpools (?:start|stop)TheWorld\w*
            \(\*(?:gc\w+|sweepLock\w+|activeSweep|scavenger\w+|spanQueue|spanSPMC)\)\.\w+
            \(\*mheap\)\.reclaim\w* \(\*pageAlloc\)\.scavenge\w* \(\*mspan\)\.sweep""",
        ),
    ),
    Rule("gc", re.compile(r"gcWriteBarrier|internal/runtime/gc(?:/scan)?\.")),
    Rule(
        "allocation",
        _names(
            "runtime",
            r"""malloc\w* newobject newarray makeslice\w* growslice\w* raw(?:string|byteslice|runeslice)\w*
            persistentalloc\w* stackalloc stackcache\w* malg copystack newstack morestack\w*""",
        ),
    ),
    Rule(
        "channel/lock",
        _names(
            "runtime",
            r"""chan(?:send|recv)\w* makechan closechan selectgo selectnb\w+ sellock selunlock send recv
            sem(?:acquire|release)\w* notifyList\w*""",
        ),
    ),
    Rule("channel/lock", re.compile(r"(?:internal/)?sync\.\(\*(?:Mutex|RWMutex|Cond|WaitGroup)\)\.")),
    Rule("channel/lock", re.compile(r"(?:internal/)?(?:sync|poll)\.runtime_(?:Sem|notify)")),
)

_GO_CALL_RULES = (
    Rule(
        "read/write",
        _names(_SYSTEM_CALLS, rf"(?i:{_TRANSFERS}|{_OPENING}|recvmsg\w*|sendmsg\w*|sendto\w*|recvfrom\w*)"),
    ),
    Rule("read/write", re.compile(r"net\.\(\*(?:conn|netFD|\w+Conn)\)\.(?:Read|Write|Send|Recv|read|write)")),
    Rule("read/write", re.compile(r"internal/poll\.\(\*FD\)\.(?:P?[rR]ead|P?[wW]rite|Raw)")),
    Rule("read/write", re.compile(r"internal/poll\.(?:ignoringEINTRIO|SendFile|Splice)")),
    Rule("read/write", _names(r"github\.com/cloudwego/netpoll", r"readv writev sendmsg ioread iosend sys\w+")),
    Rule("read/write", _names(r"github\.com/panjf2000/gnet/v2/pkg/io", "Readv Writev")),
    Rule("accept/close", _names(_SYSTEM_CALLS, rf"(?i:(?:{_CONNECTING})\w*) SetNonblock fcntl")),
    Rule(
        "accept/close",
        re.compile(
            r"internal/poll\.(?:accept|CloseFunc|\(\*(?:FD|SysFile|pollDesc)\)\."
            r"(?i:accept|close|destroy|init|shutdown|connect|[gs]etsockopt))"
        ),
    ),
    Rule(
        "accept/close",
        re.compile(
            r"net\.(?:\(\*\w+Listener\)|newTCPConn|set(?:NoDelay|KeepAlive)"
            r"|\(\*(?:conn|netFD|\w+Conn)\)\.(?i:close|accept|init|connect|set(?!\w*Deadline)))"
        ),
    ),
    Rule("accept/close", re.compile(r"github\.com/panjf2000/gnet/v2/pkg/socket\.")),
    Rule("accept/close", re.compile(r"github\.com/panjf2000/gnet/v2\.\(\*(?:eventloop|engine)\)\.(?:accept|close)")),
    Rule("epoll", _names(_SYSTEM_CALLS, r"[eE]poll\w+")),
    Rule("epoll", _names(r"github\.com/cloudwego/netpoll", r"Epoll\w+ \(\*defaultPoll\)\.\w+")),
    Rule("epoll", re.compile(r"github\.com/panjf2000/gnet/v2/pkg/netpoll\.")),
)

_SERVER_RULES = (
    # Functions that a server calls to answer a request, in any package.
    Rule(
        "handler",
        re.compile(r"(?!net/http\.|runtime\.)"),
        called_by=re.compile(r"net/http\.(?:serverHandler|HandlerFunc|\(\*ServeMux\))\.ServeHTTP$"),
    ),
    Rule("handler", _NOT_THEIRS, called_by=re.compile(r"github\.com/valyala/fasthttp\.\(\*Server\)\.serveConn")),
    Rule("handler", _NOT_THEIRS, called_by=re.compile(r"github\.com/panjf2000/gnet/v2\.\(\*(?:eventloop|conn)\)\.")),
    Rule("handler", _NOT_THEIRS, called_by=re.compile(r"github\.com/cloudwego/netpoll\.\(\*connection\)\.on")),
    Rule("handler", _NOT_THEIRS, called_by=re.compile(r"github\.com/cloudwego/hertz/pkg/app\.")),
    Rule("http", re.compile(r"benchkit/backends/kit/http1\.")),  # HTTP parser of benchkit's own event loops
    Rule("handler", re.compile(r"main\.(?!main(?:\.|$)|init)|benchkit/backends/")),
    Rule("handler", re.compile(rf"{_JAVASCRIPT} (?:/|file:|[A-Z]:\\)")),
    Rule("fastcgi", re.compile(r"net/http/f?cgi\.|ngx_http_fastcgi_")),
    Rule("http", re.compile(rf"net/(?:http|textproto|url)[./]|vendor/golang\.org/x/net/|mime[./]|{_SERVERS}")),
    Rule("http", re.compile(rf"{_JAVASCRIPT} node:|llhttp_|.*\bnode::")),
)

_NATIVE_RULES = (
    Rule("epoll", re.compile(r"epoll_|uv_(?:run|_io_poll|_run_|_update_time)")),
    Rule("epoll", re.compile(r"ngx_(?:epoll_|process_events_and_timers|event_\w*timer|rbtree_\w*timer)")),
    Rule("read/write", re.compile(rf"{_LIBC}(?:{_TRANSFERS}|{_OPENING})(?:@|$)")),
    Rule("read/write", re.compile(r"ngx_\w*(?:recv|send(?!_)|writev|readv|sendfile)\w*$")),
    Rule("read/write", re.compile(r"uv__(?:read|write|try_write|stream_io)")),
    Rule("accept/close", re.compile(rf"{_LIBC}(?:{_CONNECTING})(?:@|$)")),
    Rule("accept/close", re.compile(r"ngx_(?:event_(?:accept|connect_peer)|close_(?:accepted_)?connection)")),
    Rule(
        "accept/close", re.compile(r"ngx_(?:tcp_nodelay|get_connection)|uv__(?:server_io|accept|close|stream_destroy)")
    ),
    Rule("gc", re.compile(r"v8::internal::Heap::(?:Collect|Perform|Scavenge|Mark|Iterate|GarbageC)")),
    Rule("gc", re.compile(r"v8::internal::(?:\w*(?:Scaveng|Sweep|Mark|GC)|heap::|heap_internals::)|cppgc::")),
    Rule("gc", re.compile(r"v8::internal::\(anonymous namespace\)::\w*(?:Evacuat|Mark)")),
    Rule("allocation", re.compile(r"_*(?:int_|libc_|posix_|mid_)*(?:[mcr]e?alloc|memalign|c?free)\b")),
    Rule("allocation", re.compile(r"unlink_chunk|malloc_consolidate|sysmalloc|tcache_|operator (?:new|delete)")),
    Rule("allocation", re.compile(r"ngx_(?:p[ncm]?|[cms])?(?:alloc|memalign|free)$")),
    Rule("allocation", re.compile(r"ngx_(?:(?:create|destroy|reset)_pool|alloc_)")),
    Rule("allocation", re.compile(r"v8::internal::(?:Factory|HeapAllocator|Runtime_Allocate|\w*NewSpace)")),
    Rule("channel/lock", re.compile(r"_*pthread_(?:mutex|cond|rwlock)_|_*lll_lock|__futex_")),
    Rule("channel/lock", re.compile(r"ngx_(?:shmtx|rwlock)_|uv_(?:mutex|cond)_")),
    Rule("other", re.compile(r"v8::internal::(?:(?:compiler|maglev|interpreter|baseline)::|\w*Compil)")),
    Rule("http", re.compile(r"ngx_|\[(?:nginx|tengine|openresty|angie|freenginx)\]")),
)

# In a Go program, its own frames identify the system call and its purpose.
_KERNEL_RULES = (
    Rule("epoll", re.compile(rf"{_ENTRY}epoll_|ep_(?:poll|send_events)"), kernel=True, not_under=_GO_RUNTIME),
    Rule("read/write", re.compile(rf"{_ENTRY}(?:{_TRANSFERS}|{_OPENING})$"), kernel=True, not_under=_GO_RUNTIME),
    Rule("accept/close", re.compile(rf"{_ENTRY}(?:{_CONNECTING})$|____fput$"), kernel=True, not_under=_GO_RUNTIME),
)
_NETWORK_RULE = Rule("kernel network", _KERNEL_NETWORK, kernel=True, not_under=_IN_CALL)
"""Kernel frames under a system call count as that call, as in profiles of pprof, which do not contain them."""

RULES = (*_GO_RUNTIME_RULES, *_GO_CALL_RULES, *_SERVER_RULES, *_NATIVE_RULES, *_KERNEL_RULES, _NETWORK_RULE)
"""All rules, in the order in which they are tried."""


@dataclass(frozen=True)
class Shares:
    """The shares of a profile; a profile without samples has none."""

    total: int
    """Sum of all samples, in the unit of the profile's value."""
    categories: Mapping[Category, float]
    """All categories, in their order; empty for a profile without samples."""
    cumulative: Mapping[str, float]
    """Share of samples with a scheduler function in their stack, by function, as study 4 printed them."""

    @property
    def waiting(self) -> float | None:
        """The headline share: finding and waiting for work."""
        return sum(self.categories[each] for each in CATEGORIES if each in WAITING) if self.categories else None


def shares(profile: Profile) -> Shares:
    """Return the shares of a profile in its default value."""
    sums: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    cumulative = dict.fromkeys(STUDIED, 0)
    classifier = _Classifier(profile.frames)
    studied_names = [
        {name for name, names in STUDIED.items() if names.match(frame.function)} for frame in profile.frames
    ]
    total = 0
    for stack, weight in zip(profile.stacks, profile.weights, strict=True):
        if weight:
            total += weight
            sums[classifier.category(stack)] += weight
            for name in set().union(*(studied_names[frame] for frame in stack)):
                cumulative[name] += weight
    return Shares(
        total=total,
        categories={category: part / total for category, part in sums.items()} if total else {},
        cumulative={name: part / total for name, part in cumulative.items()} if total else {},
    )


class _Classifier:
    """The rules, matched once against each frame; conditions on callers are bits, one for each pattern."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        conditions = {
            pattern: 1 << i
            for i, pattern in enumerate(
                dict.fromkeys(
                    p for rule in RULES for p in (rule.under, rule.not_under, rule.called_by) if p is not None
                )
            )
        }

        @cache
        def met_conditions(label: str) -> int:
            return sum(bit for pattern, bit in conditions.items() if pattern.match(label))

        @cache
        def matching_rules(label: str, in_kernel: bool) -> tuple[tuple[int, int, int, Category], ...]:  # noqa: FBT001 - one of two
            return tuple(
                (_bit(rule.under), _bit(rule.not_under), _bit(rule.called_by), rule.category)
                for rule in RULES
                if rule.kernel is in_kernel and rule.function.match(label)
            )

        def _bit(pattern: object) -> int:
            return 0 if pattern is None else conditions[pattern]  # type: ignore[index] # all patterns are keys

        self._met = [met_conditions(frame.label) for frame in frames]
        self._rules = [matching_rules(frame.label, frame.kernel) for frame in frames]

    def category(self, stack: Sequence[int]) -> Category:
        """Return the category of a stack, innermost frame first."""
        callers_met = [0] * len(stack)  # conditions met by the callers of each frame
        for i in range(len(stack) - 2, -1, -1):
            callers_met[i] = callers_met[i + 1] | self._met[stack[i + 1]]
        for i, frame in enumerate(stack):
            for under, not_under, called_by, category in self._rules[frame]:
                if (
                    (not under or under & callers_met[i])
                    and not not_under & callers_met[i]
                    and (not called_by or (i + 1 < len(stack) and called_by & self._met[stack[i + 1]]))
                ):
                    return category
        return "other"
