package http1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"benchkit/backends/kit"
)

var date = regexp.MustCompile(`Date: [^\r]*`)

// exchange returns the response of a server without its date, up to the end of the response or of the connection.
func exchange(t *testing.T, address, request string) string {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, request); err != nil {
		t.Fatal(err)
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil {
		t.Fatal(err)
	}
	return date.ReplaceAllString(string(answer), "Date: now")
}

func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	app := &kit.App{Body: kit.Body(12), Requests: kit.NewCounter()}
	app.Faults.Headers = []kit.Field{{Name: "X-Extra", Value: "1"}}
	server := httptest.NewServer(app)
	defer server.Close()
	answers := NewAnswers(app)
	for _, request := range []string{
		get,
		"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	} {
		want := exchange(t, server.Listener.Addr().String(), request)
		requests, _, err := all(t, request)
		if err != nil || len(requests) != 1 {
			t.Fatal(requests, err)
		}
		got := date.ReplaceAllString(string(answers.Append(nil, 200, requests[0])), "Date: now")
		if got != want {
			t.Errorf("the response to %q is\n%q, that of net/http\n%q", request, got, want)
		}
	}
}

func TestAFailureDiffersInItsStatusOnly(t *testing.T) {
	answers := NewAnswers(&kit.App{Body: kit.Body(12)})
	good := string(answers.Append(nil, 200, Request{}))
	failed := string(answers.Append(nil, 500, Request{}))
	if strings.Replace(good, "200 OK", "500 Internal Server Error", 1) != failed {
		t.Errorf("%q, %q", good, failed)
	}
}

func TestTheDateFollowsTheClock(t *testing.T) {
	answers := NewAnswers(&kit.App{Body: kit.Body(12)})
	seen := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); len(seen) < 2; time.Sleep(10 * time.Millisecond) {
		response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(answers.Append(nil, 200, Request{})))), nil)
		if err != nil {
			t.Fatal(err)
		}
		when, err := http.ParseTime(response.Header.Get("Date"))
		if err != nil || time.Since(when) > time.Minute || time.Until(when) > 0 {
			t.Fatalf("%v, %v", when, err)
		}
		seen[response.Header.Get("Date")] = true
		if time.Now().After(deadline) {
			t.Fatal("the date does not change")
		}
	}
}
