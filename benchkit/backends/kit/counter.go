package kit

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// cacheLines is the distance in bytes that avoids false sharing between two cores: two lines of 64 bytes, because Intel's
// prefetcher loads lines in pairs, and Apple's lines have 128 bytes.
const cacheLines = 128

// cellsPerThread is more than one, because a thread may get a new cell (see [NewCounter]) while others keep theirs.
const cellsPerThread = 4

type cell struct {
	n atomic.Uint64
	_ [cacheLines - 8]byte
}

// Counter counts on many cores without a cache line that all of them write.
//
// One shared atomic is the cheapest on one core and gets slower with every further core, which would distort the
// scalability that is measured. Here each thread that runs Go code counts in a cell of its own, and Value adds the cells
// up. A sync.Pool, the standard library's per-thread storage, holds the thread's cell. counter_test.go has the cost of Add.
type Counter struct {
	cells []cell
	mine  sync.Pool
	next  atomic.Uint32
}

// NewCounter returns a counter at zero.
func NewCounter() *Counter {
	c := &Counter{cells: make([]cell, cellsPerThread*runtime.GOMAXPROCS(0))}
	// The pool holds pointers only: when a garbage collection empties it, no count is lost.
	c.mine.New = func() any { return &c.cells[int(c.next.Add(1))%len(c.cells)] }
	return c
}

// Add adds n to the counter.
func (c *Counter) Add(n uint64) {
	mine := c.mine.Get().(*cell)
	mine.n.Add(n)
	c.mine.Put(mine)
}

// Value returns the count.
func (c *Counter) Value() uint64 {
	var sum uint64
	for i := range c.cells {
		sum += c.cells[i].n.Load()
	}
	return sum
}
