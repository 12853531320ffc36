package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm sleeps to the microsecond. time.Sleep takes at least a millisecond when nothing else runs, because the runtime waits
// for its timers in epoll_wait, which counts milliseconds. The timer of an alarm is a file, which ends that wait in time.
type alarm struct {
	file  *os.File
	timer syscall.RawConn
}

func newAlarm() (*alarm, error) {
	number, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	file := os.NewFile(uintptr(number), "timerfd")
	timer, err := file.SyscallConn()
	return &alarm{file, timer}, err
}

// sleep waits for this time; a negative one is over. The function sets the timer when it is called first, and returns false,
// so that the runtime calls it again when the timer has become readable. It need not be read: setting it again resets it.
func (a *alarm) sleep(length time.Duration) error {
	if length <= 0 {
		return nil
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(length.Nanoseconds())}
	var failed error
	isSet := false
	err := a.timer.Read(func(timer uintptr) bool {
		if isSet {
			return true
		}
		isSet = true
		failed = os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(int(timer), 0, &once, nil))
		return failed != nil
	})
	return errors.Join(failed, err)
}
