package kit

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Runtime is the state of the Go runtime, in seconds, bytes and counts; counters count from the start of the process.
// A value that this Go release does not have is null.
type Runtime struct {
	GoVersion  string `json:"go_version"`
	Gomaxprocs int    `json:"gomaxprocs"`

	Goroutines       *uint64 `json:"goroutines"`
	HeapObjectsBytes *uint64 `json:"heap_objects_bytes"`
	HeapLiveBytes    *uint64 `json:"heap_live_bytes"`
	HeapGoalBytes    *uint64 `json:"heap_goal_bytes"`
	StacksBytes      *uint64 `json:"stacks_bytes"`
	MemoryBytes      *uint64 `json:"memory_bytes"`
	AllocatedBytes   *uint64 `json:"allocated_bytes"`
	AllocatedObjects *uint64 `json:"allocated_objects"`
	GCCycles         *uint64 `json:"gc_cycles"`
	// GCPauseS is the total time for which the world was stopped.
	GCPauseS float64 `json:"gc_pause_s"`
	// GCPauses are those times as a histogram.
	GCPauses Histogram `json:"gc_pauses"`
	// GCCPUS is the estimated CPU time of garbage collection, as of the end of the last one.
	GCCPUS *float64 `json:"gc_cpu_s"`
	// MutexWaitS is the total time for which goroutines waited for a lock (sync.Mutex and RWMutex).
	MutexWaitS *float64 `json:"mutex_wait_s"`
	// SchedulerLatencies are the times for which goroutines were ready to run and waited for a thread.
	SchedulerLatencies Histogram `json:"scheduler_latencies"`
}

// Bucket counts events from Low to below High seconds; an open end is null.
type Bucket struct {
	Low   *float64 `json:"low_s"`
	High  *float64 `json:"high_s"`
	Count uint64   `json:"count"`
}

// Histogram holds the buckets that are not empty, ascending.
type Histogram []Bucket

// readRuntime reads the metrics of the runtime, in about 30 µs and without stopping the world as runtime.ReadMemStats does.
func readRuntime() Runtime {
	state := Runtime{GoVersion: runtime.Version(), Gomaxprocs: runtime.GOMAXPROCS(0)}
	numbers := map[string]**uint64{
		"/sched/goroutines:goroutines":       &state.Goroutines,
		"/memory/classes/heap/objects:bytes": &state.HeapObjectsBytes,
		"/gc/heap/live:bytes":                &state.HeapLiveBytes,
		"/gc/heap/goal:bytes":                &state.HeapGoalBytes,
		"/memory/classes/heap/stacks:bytes":  &state.StacksBytes,
		"/memory/classes/total:bytes":        &state.MemoryBytes,
		"/gc/heap/allocs:bytes":              &state.AllocatedBytes,
		"/gc/heap/allocs:objects":            &state.AllocatedObjects,
		"/gc/cycles/total:gc-cycles":         &state.GCCycles,
	}
	histograms := map[string]*Histogram{
		"/sched/pauses/total/gc:seconds": &state.GCPauses,
		"/sched/latencies:seconds":       &state.SchedulerLatencies,
	}
	times := map[string]**float64{
		"/cpu/classes/gc/total:cpu-seconds": &state.GCCPUS,
		"/sync/mutex/wait/total:seconds":    &state.MutexWaitS,
	}
	samples := make([]metrics.Sample, 0, len(numbers)+len(histograms)+len(times))
	for name := range numbers {
		samples = append(samples, metrics.Sample{Name: name})
	}
	for name := range histograms {
		samples = append(samples, metrics.Sample{Name: name})
	}
	for name := range times {
		samples = append(samples, metrics.Sample{Name: name})
	}
	metrics.Read(samples)
	for _, sample := range samples {
		switch sample.Value.Kind() {
		case metrics.KindUint64:
			value := sample.Value.Uint64()
			*numbers[sample.Name] = &value
		case metrics.KindFloat64:
			value := sample.Value.Float64()
			*times[sample.Name] = &value
		case metrics.KindFloat64Histogram:
			*histograms[sample.Name] = buckets(sample.Value.Float64Histogram())
		}
	}
	var pauses debug.GCStats
	debug.ReadGCStats(&pauses)
	state.GCPauseS = float64(pauses.PauseTotal) / float64(time.Second)
	return state
}

func buckets(histogram *metrics.Float64Histogram) Histogram {
	filled := Histogram{}
	for i, count := range histogram.Counts {
		if count > 0 {
			filled = append(filled, Bucket{finite(histogram.Buckets[i]), finite(histogram.Buckets[i+1]), count})
		}
	}
	return filled
}

func finite(bound float64) *float64 {
	if math.IsInf(bound, 0) {
		return nil
	}
	return &bound
}
