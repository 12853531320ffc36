"""Tuning: plans the kernel settings that a host accepts, and applies them; knows the names of settings.

Planning is pure. The agent restores the former values exactly; see `benchkit.hosts.host_changes`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchkit.agent.operations import Sysctl, SysctlOutcome
from benchkit.agent.settings import Sysctls
from benchkit.errors import HostError, suggestion
from benchkit.hosts.host import Host
from benchkit.hosts.host_changes import ChangeScope
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.processes import Processes

logger = logging.getLogger(__name__)

SUDO_SYSCTL = ("sudo", "-n", "--", "sysctl", "-q", "-w")
"""Command that writes a setting where the inventory allows sudo and the login user may not write; `key=value`
follows."""

SUDO_CHECK = ("sudo", "-n", "--", "true")
"""Command that checks, at each connection to a host that allows sudo, that sudo needs no password."""

SettingStatus = Literal[
    "apply", "already", "absent", "unreadable", "read-only", "not-isolated", "needs-root", "no-sudo"
]

_REASONS: Mapping[SettingStatus, str] = {
    "absent": "not applied, this host has no such setting",
    "unreadable": "not applied, it cannot be read and so could not be restored",
    "read-only": "not applied, it is read-only here, for root too",
    "not-isolated": "not isolated, not applied (shared with the other hosts of this machine)",
    "needs-root": "not applied, it needs root (`sudo: true` in the inventory would let benchkit try sudo)",
    "no-sudo": "not applied, it needs root, and `sudo -n` is refused here",
}

_NAMES = {
    "fs": """
        aio-max-nr aio-nr binfmt_misc dentry-negative dentry-state dir-notify-enable dquot-max dquot-nr
        file-max file-nr inode-max inode-nr inode-state lease-break-time leases-enable mount-max nr_open
        overflowgid overflowuid pipe-max-size pipe-user-pages-hard pipe-user-pages-soft protected_fifos
        protected_hardlinks protected_regular protected_symlinks suid_dumpable super-max super-nr
    """,
    "net.core": """
        bpf_jit_enable bpf_jit_harden bpf_jit_kallsyms bpf_jit_limit busy_poll busy_read default_qdisc
        dev_weight dev_weight_rx_bias dev_weight_tx_bias devconf_inherit_init_net
        fb_tunnels_only_for_init_net flow_limit_cpu_bitmap flow_limit_table_len gro_normal_batch
        high_order_alloc_disable max_skb_frags mem_pcpu_rsv message_burst message_cost netdev_budget
        netdev_budget_usecs netdev_max_backlog netdev_rss_key netdev_tstamp_prequeue
        netdev_unregister_timeout_secs optmem_max rmem_default rmem_max rps_default_mask
        rps_sock_flow_entries skb_defer_max somaxconn tstamp_allow_data txrehash warnings wmem_default
        wmem_max xfrm_acq_expires xfrm_aevent_etime xfrm_aevent_rseqth xfrm_larval_drop
    """,
    "net.ipv4": """
        cipso_cache_bucket_size cipso_cache_enable cipso_rbm_optfmt cipso_rbm_strictvalid
        fib_multipath_hash_fields fib_multipath_hash_policy fib_multipath_hash_seed fib_multipath_use_neigh
        fib_notify_on_flag_change fib_sync_mem fwmark_reflect icmp_echo_enable_probe icmp_echo_ignore_all
        icmp_echo_ignore_broadcasts icmp_errors_use_inbound_ifaddr icmp_ignore_bogus_error_responses
        icmp_msgs_burst icmp_msgs_per_sec icmp_ratelimit icmp_ratemask igmp_link_local_mcast_reports
        igmp_max_memberships igmp_max_msf igmp_qrv inet_peer_gc_maxtime inet_peer_gc_mintime
        inet_peer_maxttl inet_peer_minttl inet_peer_threshold ip_autobind_reuse ip_conntrack_max
        ip_default_ttl ip_dynaddr ip_early_demux ip_forward ip_forward_update_priority ip_forward_use_pmtu
        ip_local_port_range ip_local_reserved_ports ip_no_pmtu_disc ip_nonlocal_bind
        ip_unprivileged_port_start ipfrag_high_thresh ipfrag_low_thresh ipfrag_max_dist
        ipfrag_secret_interval ipfrag_time nexthop_compat_mode ping_group_range raw_l3mdev_accept tcp_abc
        tcp_abort_on_overflow tcp_adv_win_scale tcp_allowed_congestion_control tcp_app_win tcp_autocorking
        tcp_available_congestion_control tcp_available_ulp tcp_avoid_reordering tcp_backlog_ack_defer
        tcp_base_mss tcp_bic tcp_challenge_ack_limit tcp_child_ehash_entries tcp_comp_sack_delay_ns
        tcp_comp_sack_nr tcp_comp_sack_slack_ns tcp_congestion_control tcp_cookie_size tcp_dma_copybreak
        tcp_dsack tcp_early_demux tcp_early_retrans tcp_ecn tcp_ecn_fallback tcp_ecn_option
        tcp_ecn_option_beacon tcp_ehash_entries tcp_fack tcp_fastopen tcp_fastopen_blackhole_timeout_sec
        tcp_fastopen_key tcp_fin_timeout tcp_frto tcp_frto_response tcp_fwmark_accept tcp_invalid_ratelimit
        tcp_keepalive_intvl tcp_keepalive_probes tcp_keepalive_time tcp_l3mdev_accept tcp_limit_output_bytes
        tcp_low_latency tcp_max_orphans tcp_max_reordering tcp_max_ssthresh tcp_max_syn_backlog
        tcp_max_tw_buckets tcp_mem tcp_migrate_req tcp_min_rtt_wlen tcp_min_snd_mss tcp_min_tso_segs
        tcp_moderate_rcvbuf tcp_mtu_probe_floor tcp_mtu_probing tcp_no_metrics_save
        tcp_no_ssthresh_metrics_save tcp_notsent_lowat tcp_orphan_retries tcp_pacing_ca_ratio
        tcp_pacing_ss_ratio tcp_pingpong_thresh tcp_plb_cong_thresh tcp_plb_enabled
        tcp_plb_idle_rehash_rounds tcp_plb_rehash_rounds tcp_plb_suspend_rto_sec tcp_probe_interval
        tcp_probe_threshold tcp_recovery tcp_reflect_tos tcp_reordering tcp_retrans_collapse tcp_retries1
        tcp_retries2 tcp_rfc1337 tcp_rmem tcp_rto_max_ms tcp_rto_min_us tcp_sack tcp_shrink_window
        tcp_slow_start_after_idle tcp_stdurg tcp_syn_linear_timeouts tcp_syn_retries tcp_synack_retries
        tcp_syncookies tcp_thin_dupack tcp_thin_linear_timeouts tcp_timestamps tcp_tso_rtt_log
        tcp_tso_win_divisor tcp_tw_recycle tcp_tw_reuse tcp_tw_reuse_delay tcp_window_scaling tcp_wmem
        tcp_workaround_signed_windows udp_child_hash_entries udp_early_demux udp_hash_entries
        udp_l3mdev_accept udp_mem udp_rmem_min udp_wmem_min xfrm4_gc_thresh
    """,
    "vm": """
        admin_reserve_kbytes block_dump compact_memory compact_unevictable_allowed compaction_proactiveness
        defrag_mode dirty_background_bytes dirty_background_ratio dirty_bytes dirty_expire_centisecs
        dirty_ratio dirty_writeback_centisecs dirtytime_expire_seconds drop_caches extfrag_threshold
        highmem_is_dirtyable hugepages_treat_as_movable hugetlb_optimize_vmemmap hugetlb_shm_group
        laptop_mode legacy_va_layout lowmem_reserve_ratio max_map_count memfd_noexec
        memory_failure_early_kill memory_failure_recovery min_free_kbytes min_slab_ratio min_unmapped_ratio
        mmap_min_addr mmap_rnd_bits mmap_rnd_compat_bits nr_hugepages nr_hugepages_mempolicy
        nr_overcommit_hugepages nr_pdflush_threads nr_trim_pages numa_stat numa_zonelist_order
        oom_dump_tasks oom_kill_allocating_task overcommit_kbytes overcommit_memory overcommit_ratio
        page-cluster page_lock_unfairness pagecache panic_on_oom percpu_pagelist_fraction
        percpu_pagelist_high_fraction scan_unevictable_pages shrink_inodes_with_pagecache stat_interval
        stat_refresh swappiness unprivileged_userfaultfd user_reserve_kbytes vfs_cache_pressure
        vfs_cache_pressure_denom watermark_boost_factor watermark_scale_factor zone_reclaim_mode
    """,
}
"""Names in Linux 6.18 (listed on a host) and in earlier versions (Documentation/admin-guide/sysctl and
Documentation/networking/ip-sysctl of Linux 2.6.32, 3.16 and 4.11).
"""

KNOWN = frozenset(f"{folder}.{name}" for folder, names in _NAMES.items() for name in names.split())
"""Kernel settings of Linux, past and present, in the folders that tunings use.

A host need not have all of them: newer kernels removed some (tcp_tw_recycle) and added others. A setting that neither
this list nor any host has is misspelt.
"""


@dataclass(frozen=True)
class Setting:
    """One setting of a tuning on one host."""

    key: str
    value: str
    """Value in the tuning."""
    found: str | None
    """Value on the host."""
    status: SettingStatus
    sudo: bool = False
    """True where it is applied through sudo."""

    def command(self) -> tuple[str, ...] | None:
        """Return the command that runs with sudo, for display; None where sudo is not used."""
        return (*SUDO_SYSCTL, f"{self.key}={self.value}") if self.sudo else None


@dataclass(frozen=True)
class FileLimit:
    """The limit of open files for processes that benchkit starts on one host."""

    wanted: int
    why_not: str | None = None
    """Reason why it cannot be set; None where it can."""


@dataclass(frozen=True)
class TuningPlan:
    """The settings of a tuning on one host, with their status."""

    host: str
    settings: tuple[Setting, ...]
    nofile: FileLimit | None = None

    @property
    def values(self) -> dict[str, str]:
        """Values to write, in the order of the tuning."""
        return {setting.key: setting.value for setting in self.settings if setting.status == "apply"}

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands that run with sudo to apply the plan."""
        return tuple(command for setting in self.settings if (command := setting.command()))

    @property
    def restore_commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands that run with sudo to restore the former values, the last written first."""
        former = (replace(setting, value=setting.found or "") for setting in reversed(self.settings))
        return tuple(command for setting in former if (command := setting.command()))

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each reason why settings are not applied, naming these settings."""
        by_reason: dict[str, list[str]] = {}
        for setting in self.settings:
            if setting.status in _REASONS:
                by_reason.setdefault(_REASONS[setting.status], []).append(f"{setting.key} = {setting.value}")
        sentences = [f"{self.host}: {reason}: {', '.join(settings)}" for reason, settings in by_reason.items()]
        if self.nofile is not None and self.nofile.why_not is not None:
            sentences.append(f"{self.host}: not applied, {self.nofile.why_not}: {self.nofile.wanted} open files")
        return tuple(sentences)


@dataclass(frozen=True)
class SudoCommand:
    """A command that runs with sudo."""

    host: str
    when: Literal["connecting", "tuning", "restoring"]
    """Occasion; the agent restores at the end of the run, or its watchdog where the controller is lost."""
    argv: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.host}, {self.when}: {' '.join(self.argv)}"


@dataclass(frozen=True)
class TuningResult:
    """The outcome of applying a plan."""

    written: Mapping[str, SysctlOutcome]
    sentences: tuple[str, ...]
    """Planned settings that were not applied, as sentences."""


def plan(
    spec: HostSpec,
    tuning: Mapping[str, str | int],
    found: Mapping[str, Sysctl],
    *,
    root: bool,
    can_sudo: bool | None,
    not_isolated: Collection[str] = (),
    nofile: FileLimit | None = None,
) -> TuningPlan:
    """Plan the settings of `tuning` on a host whose settings are `found`; pure."""
    shared = frozenset(not_isolated)
    settings = []
    for key, wanted in tuning.items():
        value = " ".join(str(wanted).split())
        sysctl = found[key]
        status = _status(sysctl, value, spec, root=root, can_sudo=can_sudo, shared=key in shared)
        sudo = status == "apply" and not sysctl.writable
        settings.append(Setting(key, value, sysctl.value, status, sudo))
    return TuningPlan(spec.name, tuple(settings), nofile)


def sudo_commands(specs: Iterable[HostSpec], plans: Sequence[TuningPlan]) -> tuple[SudoCommand, ...]:
    """Return all commands that run with sudo on these hosts, at each connection and for these plans; pure."""
    return (
        *(SudoCommand(spec.name, "connecting", SUDO_CHECK) for spec in specs if spec.sudo),
        *(SudoCommand(each.host, "tuning", command) for each in plans for command in each.commands),
        *(
            SudoCommand(each.host, "restoring", command)
            for each in reversed(plans)
            for command in each.restore_commands
        ),
    )


def file_limit(processes: Processes, wanted: int, hard: int | None) -> FileLimit:
    """Check that processes on a host can have `wanted` open files; above the hard limit, by running `true`."""
    if hard is None or wanted <= hard:
        return FileLimit(wanted)
    try:
        processes.run(("true",), nofile=wanted)
    except HostError as error:
        return FileLimit(wanted, (error.why or error.what).removeprefix(f"{wanted} open files: "))
    return FileLimit(wanted)


def apply(host: Host, planned: TuningPlan, scope: ChangeScope = "run") -> TuningResult:
    """Apply a plan on its host and read every setting again. Raises HostError."""
    if not planned.values:
        return TuningResult({}, ())
    sudo = SUDO_SYSCTL if planned.commands else None
    logger.info("%s: writing %d kernel settings", host.name, len(planned.values))
    written = host.call(Sysctls.write, planned.values, sudo, scope)
    for key, outcome in written.items():
        logger.info("%s: %s = %s: %s", host.name, key, planned.values[key], outcome.outcome)
    sentences = [
        f"{planned.host}: {key} = {planned.values[key]} not applied: {_reason(outcome)}"
        for key, outcome in written.items()
        if outcome.outcome not in ("applied", "already")
    ]
    return TuningResult(written, tuple(sentences))


def _status(
    sysctl: Sysctl, value: str, spec: HostSpec, *, root: bool, can_sudo: bool | None, shared: bool
) -> SettingStatus:
    status: SettingStatus = "apply" if sysctl.writable or can_sudo else "no-sudo"
    if sysctl.state == "present" and (sysctl.value or "").split() == value.split():
        status = "already"
    elif shared:  # also where the machine has the setting, but not the host
        status = "not-isolated"
    elif sysctl.state != "present":
        status = sysctl.state
    elif not sysctl.writable and root:
        status = "read-only"
    elif not sysctl.writable and not spec.sudo:
        status = "needs-root"
    return status


def _reason(outcome: SysctlOutcome) -> str:
    if outcome.outcome == "differs":
        return f"the kernel stored {outcome.value} instead"
    return outcome.why or outcome.outcome


def is_unknown(key: str) -> bool:
    """Return whether no Linux version has this setting; settings in folders that are not listed are never rejected."""
    return key.rpartition(".")[0] in _NAMES and key not in KNOWN


def spelling_hint(key: str) -> str:
    """Return a hint for an unknown setting: `did you mean 'net.core.somaxconn'?` and where the name was looked up."""
    near = suggestion(key, sorted(KNOWN))
    meant = near.partition("? ")[0] + "?" if near.startswith("did you mean") else ""
    return f"{meant} neither the Linux versions that benchkit knows nor these hosts have it".strip()
