package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

const get = "GET / HTTP/1.1\r\nHost: sut\r\n\r\n"

// all parses requests until all bytes are consumed.
func all(t testing.TB, pieces ...string) (requests []Request, continues int, err error) {
	t.Helper()
	var parser Parser
	var waiting []byte
	for _, piece := range pieces {
		waiting = append(waiting, piece...)
		for event := Done; event != More; {
			var taken int
			taken, event, err = parser.Next(waiting)
			waiting = waiting[taken:]
			if err != nil {
				return requests, continues, err
			}
			switch event {
			case Done:
				requests = append(requests, parser.Request)
			case Continue:
				continues++
			}
		}
	}
	return requests, continues, nil
}

func TestRequests(t *testing.T) {
	for _, test := range []struct {
		name, bytes string
		want        []Request
	}{
		{"nothing", "", nil},
		{"half a request", get[:len(get)-1], nil},
		{"one", get, []Request{{}}},
		{"two in a row", get + get, []Request{{}, {}}},
		{"an empty line before it", "\r\n" + get, []Request{{}}},
		{"HEAD", "HEAD /a?b HTTP/1.1\r\nHost: a\r\n\r\n", []Request{{Head: true}}},
		{"close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", []Request{{Close: true}}},
		{"close among others", "GET / HTTP/1.1\r\nHost: a\r\nConnection: te , close\r\n\r\n", []Request{{Close: true}}},
		{"close in a second field", "GET / HTTP/1.1\r\nHost: a\r\nConnection: te\r\nconnection: close\r\n\r\n", []Request{{Close: true}}},
		{"closed is not close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", []Request{{}}},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", []Request{{HTTP10: true, Close: true}}},
		{"HTTP/1.0 that stays", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", []Request{{HTTP10: true}}},
		{"HTTP/1.0 that says both", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", []Request{{HTTP10: true, Close: true}}},
		{"a later HTTP/1", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", []Request{{}}},
		{"a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + get, []Request{{}, {}}},
		{"a body like a request", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 29\r\n\r\n" + get + get, []Request{{}, {}}},
		{"an empty body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + get, []Request{{}, {}}},
		{"two equal lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\nx" + get, []Request{{}, {}}},
		{"chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\n00A\r\n0123456789\r\n0\r\nA: b\r\n\r\n" + get, []Request{{}, {}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, way := range []struct {
				name   string
				pieces []string
			}{{"at once", []string{test.bytes}}, {"byte by byte", strings.Split(test.bytes, "")}} {
				got, _, err := all(t, way.pieces...)
				if err != nil || len(got) != len(test.want) {
					t.Fatalf("%s: %v, %v", way.name, got, err)
				}
				for i := range got {
					if got[i] != test.want[i] {
						t.Errorf("%s: request %d is %+v, want %+v", way.name, i, got[i], test.want[i])
					}
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	const start = "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, test := range []struct {
		name, bytes string
		status      int
	}{
		{"no request line", "hello\r\n\r\n", 400},
		{"no version", "GET /\r\n\r\n", 400},
		{"an odd version", "GET / HTTP/1.1x\r\nHost: a\r\n\r\n", 400},
		{"another version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
		{"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a method that is none", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"no target", "GET sut HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"a tunnel", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
		{"Host with a blank", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"a field without a colon", start + "field\r\n\r\n", 400},
		{"a blank before the colon", start + "Field : 1\r\n\r\n", 400},
		{"a field without a name", start + ": 1\r\n\r\n", 400},
		{"a line that goes on", start + "Field: 1\r\n 2\r\n\r\n", 400},
		{"a lone line feed", start + "Field: 1\nOther: 2\r\n\r\n", 400},
		{"a NUL", start + "Field: \x00\r\n\r\n", 400},
		{"a negative length", start + "Content-Length: -1\r\n\r\n", 400},
		{"a length with a sign", start + "Content-Length: +1\r\n\r\n", 400},
		{"a length beyond all", start + "Content-Length: 9223372036854775808\r\n\r\n", 400},
		{"two lengths", start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		{"a list of lengths", start + "Content-Length: 1, 1\r\n\r\n", 400},
		{"length and chunks", start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"another encoding", start + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"chunked twice", start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		{"another expectation", start + "Expect: more\r\n\r\n", 417},
		{"a chunk without a size", start + "Transfer-Encoding: chunked\r\n\r\n\r\n", 400},
		{"a negative chunk", start + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
		{"a chunk beyond all", start + "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n", 400},
		{"a chunk that goes on", start + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", 400},
		{"a chunk's line without end", start + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", maxChunkLine), 400},
		{"a trailer that is none", start + "Transfer-Encoding: chunked\r\n\r\n0\r\nx\r\n\r\n", 400},
		{"trailers without end", start + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", MaxHeader/6+1), 400},
		{"a large header", start + strings.Repeat("A: b\r\n", MaxHeader/6) + "\r\n", 431},
		{"a header without end", strings.Repeat("x", MaxHeader+1), 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, pieces := range [][]string{{test.bytes}, strings.Split(test.bytes, "")} {
				requests, _, err := all(t, pieces...)
				var refusal *Refusal
				if !errors.As(err, &refusal) || refusal.Status != test.status || refusal.Why == "" || len(requests) > 0 {
					t.Fatalf("%+v, %v; want %d", requests, err, test.status)
				}
				answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(AppendRefusal(nil, err))), nil)
				if err != nil || answer.StatusCode != test.status || !answer.Close {
					t.Errorf("answer %+v, %v", answer, err)
				}
			}
		})
	}
}

func TestAWaitingClientGetsAnInterimResponse(t *testing.T) {
	const header = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n"
	for _, test := range []struct {
		name      string
		pieces    []string
		continues int
	}{
		{"it waits", []string{header, "ab"}, 1},
		{"it does not wait", []string{header + "a", "b"}, 0},
		{"it has no body", []string{"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n"}, 0},
		{"it speaks HTTP/1.0", []string{strings.Replace(header, "1.1", "1.0", 1), "ab"}, 0},
	} {
		requests, continues, err := all(t, test.pieces...)
		if err != nil || len(requests) != 1 || continues != test.continues {
			t.Errorf("%s: %v, %d, %v", test.name, requests, continues, err)
		}
	}
}

// FuzzAgainstNetHTTP checks that net/http parses accepted requests as well, with the same meaning and the same end.
func FuzzAgainstNetHTTP(f *testing.F) {
	for _, seed := range []string{
		get, get + get, "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + get,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n" + get,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	} {
		f.Add([]byte(seed), uint(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		whole, _, err := all(t, string(data))
		first := data[:cut%uint(len(data)+1)]
		pieces, _, errPieces := all(t, string(first), string(data[len(first):]))
		if len(whole) != len(pieces) || (err == nil) != (errPieces == nil) {
			t.Fatalf("at once %v %v, in two pieces %v %v", whole, err, pieces, errPieces)
		}
		reader := bufio.NewReader(bytes.NewReader(data))
		for i, ours := range whole {
			for next, _ := reader.Peek(2); string(next) == "\r\n"; next, _ = reader.Peek(2) {
				_, _ = reader.Discard(2) // net/http does not ignore an empty line
			}
			theirs, err := http.ReadRequest(reader)
			if err != nil && strings.HasPrefix(err.Error(), "parse ") {
				return // the target, which this parser does not parse
			}
			if err != nil {
				t.Fatalf("request %d: net/http says %v", i, err)
			}
			if _, err := io.Copy(io.Discard, theirs.Body); err != nil {
				t.Fatalf("body of request %d: net/http says %v", i, err)
			}
			if ours.Head != (theirs.Method == "HEAD") || ours.HTTP10 != !theirs.ProtoAtLeast(1, 1) || ours.Close != theirs.Close {
				t.Fatalf("request %d: %+v, net/http says %s %s close=%v", i, ours, theirs.Method, theirs.Proto, theirs.Close)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	data := []byte("GET / HTTP/1.1\r\nHost: 198.19.180.11:8080\r\nUser-Agent: hey/0.0.1\r\nAccept-Encoding: gzip\r\n\r\n")
	var parser Parser
	for range b.N {
		if taken, event, err := parser.Next(data); event != Done || taken != len(data) || err != nil {
			b.Fatal(event, err)
		}
	}
}
