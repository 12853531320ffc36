package kit

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// cacheLines is the distance in bytes at which two cores do not disturb each other: two lines, because Intel's
// prefetcher fetches them in pairs and Apple's lines are as long.
const cacheLines = 128

// cellsPerThread leaves room for threads that are handed a new cell (see [NewCounter]) before the others move on.
const cellsPerThread = 4

type cell struct {
	n atomic.Uint64
	_ [cacheLines - 8]byte
}

// Counter counts on many cores without a cache line that all of them write.
//
// One shared atomic is the cheapest on one core and gets slower with every core that joins, which would bend the very
// curve that is measured. Here each thread that runs Go code counts in a cell of its own, and reading adds the cells up.
// Which cell that is a sync.Pool knows, the standard library's way to per-thread data. See counter_test.go for what an
// Add costs.
type Counter struct {
	cells []cell
	mine  sync.Pool
	next  atomic.Uint32
}

// NewCounter is a counter at zero.
func NewCounter() *Counter {
	c := &Counter{cells: make([]cell, cellsPerThread*runtime.GOMAXPROCS(0))}
	// The pool only says where to count: when it forgets (at a garbage collection) nothing that was counted is lost.
	c.mine.New = func() any { return &c.cells[int(c.next.Add(1))%len(c.cells)] }
	return c
}

// Add counts n more.
func (c *Counter) Add(n uint64) {
	mine := c.mine.Get().(*cell)
	mine.n.Add(n)
	c.mine.Put(mine)
}

// Value is what was counted so far.
func (c *Counter) Value() uint64 {
	var sum uint64
	for i := range c.cells {
		sum += c.cells[i].n.Load()
	}
	return sum
}
