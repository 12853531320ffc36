package kit

import (
	"encoding/json"
	"math"
	"net"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

func TestBody(t *testing.T) {
	for _, test := range []struct {
		size int
		want string
	}{
		{0, ""},
		{2, "He"},
		{12, "Hello World\n"},
		{24, "Hello World\nHello World\n"},
		{25, "Hello World\nHello World\nH"},
	} {
		if got := string(Body(test.size)); got != test.want {
			t.Errorf("Body(%d) = %q, want %q", test.size, got, test.want)
		}
	}
	if len(other) != len(Hello) || other == Hello {
		t.Errorf("the other body %q must differ from %q in its bytes only", other, Hello)
	}
}

func TestOptions(t *testing.T) {
	options, err := parseOptions("server", []string{
		"-listen", "[::1]:8080", "-admin", "unix:/run/admin", "-body-size", "1600", "-work", "loop:1000000",
		"-inject-fault", "delay:5ms", "-inject-fault", "header:A=1", "-inject-fault", "header:B=",
	})
	if err != nil {
		t.Fatal(err)
	}
	if options.Listen != "[::1]:8080" || options.Admin != "unix:/run/admin" || options.BodySize != 1600 {
		t.Errorf("%+v", options)
	}
	if options.Work.loop != 1_000_000 || options.Work.sum != 499_999_500_000 {
		t.Errorf("work %+v", options.Work)
	}
	faults := options.Faults
	if !faults.Any() || faults.Delay != 5*time.Millisecond || len(faults.Headers) != 2 || faults.Headers[1].Name != "B" {
		t.Errorf("faults %+v", faults)
	}
}

func TestWithoutFaultsNothingActsOnRequests(t *testing.T) {
	options, err := parseOptions("server", []string{"-listen", ":8080"})
	if err != nil {
		t.Fatal(err)
	}
	if options.Faults.Any() || options.BodySize != 12 || options.Admin != "" {
		t.Errorf("%+v", options)
	}
}

func TestWorkIsRight(t *testing.T) {
	for _, value := range []string{"none", "loop:0", "loop:1", "loop:2", "loop:1000000"} {
		work, err := parseWork(value)
		if err != nil || !work.Do() {
			t.Errorf("%s: %v, %+v", value, err, work)
		}
	}
	for _, value := range []string{"block:0ms", "block:1", "block:1s", "block:10001ms"} {
		if work, err := parseWork(value); err == nil {
			t.Errorf("%s is accepted: %+v", value, work)
		}
	}
	began := time.Now()
	if work, err := parseWork("block:20ms"); err != nil || !work.Do() || time.Since(began) < 20*time.Millisecond {
		t.Errorf("block:20ms: %v, %+v", err, work)
	}
	if (Work{loop: 10, sum: 44}).Do() {
		t.Error("a wrong sum is accepted")
	}
}

func TestSumsAreExactInNode(t *testing.T) {
	work, err := parseWork("loop:100000000")
	if err != nil || work.sum > 1<<53 {
		t.Errorf("%v: %d is above 2^53", err, work.sum)
	}
}

func TestSharesAreExact(t *testing.T) {
	for _, share := range []float64{0.001, 0.01, 0.1, 1.0 / 3, 0.5, 0.99, 1} {
		const requests = 10_000
		count := 0
		for n := uint64(1); n <= requests; n++ {
			if due(n, share) {
				count++
			}
		}
		if math.Abs(float64(count)-requests*share) > 1 {
			t.Errorf("share %v: %d of %d", share, count, requests)
		}
	}
	if due(1, 0) {
		t.Error("an event is due with a share of 0")
	}
}

func TestSlowStartWearsOff(t *testing.T) {
	faults := Faults{SlowStart: 3 * time.Second}
	for _, test := range []struct{ open, want time.Duration }{
		{0, slowStartCost},
		{1500 * time.Millisecond, slowStartCost / 2},
		{3 * time.Second, 0},
		{time.Hour, 0},
	} {
		if got := faults.coldCost(test.open); got != test.want {
			t.Errorf("after %v a request costs %v, want %v", test.open, got, test.want)
		}
	}
}

func TestWorkWithoutRequests(t *testing.T) {
	for _, test := range []struct {
		faults Faults
		idle   time.Duration
		want   time.Duration
	}{
		{Faults{Background: 0.1}, time.Hour, tick / 10},
		{Faults{Background: 0.1}, 0, tick / 10},
		{Faults{Linger: time.Second}, 0, 0},
		{Faults{Linger: time.Second}, tick, tick},
		{Faults{Linger: time.Second}, time.Second, 0},
	} {
		if got := test.faults.unaskedCost(test.idle); got != test.want {
			t.Errorf("%+v, idle for %v: %v in a tick, want %v", test.faults, test.idle, got, test.want)
		}
	}
}

func TestCauseIsTheInnermost(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = Listen(listener.Addr().String())
	if err == nil || strings.Count(err.Error(), listener.Addr().String()) != 1 {
		t.Errorf("%v", err)
	}
}

func TestBuckets(t *testing.T) {
	got, err := json.Marshal(buckets(&metrics.Float64Histogram{
		Counts:  []uint64{1, 0, 2, 3},
		Buckets: []float64{math.Inf(-1), 0, 0.5, 1, math.Inf(1)},
	}))
	want := `[{"low_s":null,"high_s":0,"count":1},{"low_s":0.5,"high_s":1,"count":2},{"low_s":1,"high_s":null,"count":3}]`
	if err != nil || string(got) != want {
		t.Errorf("%v %s", err, got)
	}
}

func TestRuntimeIsComplete(t *testing.T) {
	document, err := json.Marshal(readRuntime())
	if err != nil {
		t.Fatal(err)
	}
	var figures map[string]any
	if err := json.Unmarshal(document, &figures); err != nil {
		t.Fatal(err)
	}
	for name, figure := range figures {
		if figure == nil {
			t.Errorf("this Go release has no %s", name)
		}
	}
}

func BenchmarkReadRuntime(b *testing.B) {
	for range b.N {
		readRuntime()
	}
}
