package kit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxLoop is the largest N of -work loop:N. The sum of the numbers below it is less than 2⁵³, so that a float64, and thus
// Node, has it exactly.
const MaxLoop = 100_000_000

// MaxBlock is the largest N of -work block:Nms.
const MaxBlock = 10_000

// Work is the work of a request in addition to its response; the zero value is none.
type Work struct {
	loop uint64
	sum  uint64
	// block is the time for which the handler waits without using the CPU, as for a database.
	block time.Duration
}

func parseWork(value string) (Work, error) {
	if value == "none" {
		return Work{}, nil
	}
	if wait, isBlock := strings.CutPrefix(value, "block:"); isBlock {
		count, isMilliseconds := strings.CutSuffix(wait, "ms")
		if n, err := strconv.ParseUint(count, 10, 64); isMilliseconds && err == nil && n > 0 && n <= MaxBlock {
			return Work{block: time.Duration(n) * time.Millisecond}, nil
		}
		return Work{}, fmt.Errorf("expected block:Nms with N from 1 to %d", MaxBlock)
	}
	count, isLoop := strings.CutPrefix(value, "loop:")
	n, err := strconv.ParseUint(count, 10, 64)
	if !isLoop || err != nil || n > MaxLoop {
		return Work{}, fmt.Errorf("expected none, block:Nms, or loop:N with N from 0 to %d", MaxLoop)
	}
	work := Work{loop: n}
	if n > 0 {
		work.sum = n * (n - 1) / 2
	}
	return work, nil
}

// Do does the work and reports whether its result is right, which it always is. The result is used so that the compiler
// cannot remove the loop.
func (w Work) Do() bool {
	if w.block > 0 {
		time.Sleep(w.block)
	}
	return w.loop == 0 || addBelow(w.loop) == w.sum
}

// addBelow adds the numbers 0 … n-1, one at a time.
//
//go:noinline
func addBelow(n uint64) uint64 {
	var sum uint64
	for i := uint64(0); i < n; i++ {
		sum += i
	}
	return sum
}
