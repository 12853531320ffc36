// Command netpoll is an HTTP/1.1 server on cloudwego/netpoll: event loops over epoll read from all connections, and a
// goroutine of a pool serves a connection only while it has requests to answer.
package main

import (
	"context"
	"errors"

	"github.com/cloudwego/netpoll"

	"benchkit/backends/kit"
	"benchkit/backends/kit/http1"
)

func main() { kit.Main("netpoll", serve) }

// server is the state that connections share.
type server struct {
	app     *kit.App
	answers *http1.Answers
}

// session is the state of a connection.
type session struct {
	parser http1.Parser
	// gone is closed with the connection. It is nil without faults, because nothing waits then.
	gone chan struct{}
}

type sessionKey struct{}

func serve(app *kit.App) error {
	listener, err := app.Open()
	if err != nil {
		return err
	}
	s := &server{app, http1.NewAnswers(app)}
	loop, err := netpoll.NewEventLoop(s.onRequest, netpoll.WithOnPrepare(s.onPrepare), netpoll.WithOnDisconnect(onDisconnect))
	if err != nil {
		return err
	}
	return loop.Serve(listener)
}

// onPrepare sets up a connection.
func (s *server) onPrepare(netpoll.Connection) context.Context {
	state := &session{}
	if s.app.Faults.Any() {
		state.gone = make(chan struct{})
	}
	return context.WithValue(context.Background(), sessionKey{}, state)
}

// onDisconnect wakes the requests that wait on a connection which the client has closed.
func onDisconnect(ctx context.Context, _ netpoll.Connection) {
	if state := ctx.Value(sessionKey{}).(*session); state.gone != nil {
		close(state.gone)
	}
}

// onRequest answers the requests that have arrived. netpoll calls it until it has read everything, so it waits for the rest
// of an incomplete request, and closes the connection if no more input will come.
func (s *server) onRequest(ctx context.Context, connection netpoll.Connection) error {
	state := ctx.Value(sessionKey{}).(*session)
	stays, err := s.answerAll(connection, state)
	if err == nil && stays {
		return nil
	}
	_ = connection.Reader().Skip(connection.Reader().Len())
	return errors.Join(err, connection.Close())
}

// answerAll answers all available requests with one write, and reports whether the connection stays open.
func (s *server) answerAll(connection netpoll.Connection, state *session) (stays bool, err error) {
	reader, writer := connection.Reader(), connection.Writer()
	least := 1
	for stays = true; stays && reader.Len() > 0; {
		if _, err := reader.Peek(least); err != nil { // waits for this number of bytes
			return false, err
		}
		data, err := reader.Peek(reader.Len())
		if err != nil {
			return false, err
		}
		taken, event, refused := state.parser.Next(data)
		if err := reader.Skip(taken); err != nil {
			return false, err
		}
		switch {
		case refused != nil:
			stays = false
			_, err = writer.WriteBinary(http1.AppendRefusal(nil, refused))
		case event == http1.Done:
			stays, err = s.answer(writer, state)
		case event == http1.Continue:
			_, err = writer.WriteString(http1.Interim)
		}
		if err != nil {
			return false, err
		}
		least = 1
		if event == http1.More && reader.Len() > 0 { // an incomplete request; finished responses must not wait for the rest of it
			least = reader.Len() + 1
			if err := writer.Flush(); err != nil {
				return false, err
			}
		}
	}
	if err := reader.Release(); err != nil {
		return false, err
	}
	return stays, writer.Flush()
}

// answer does the work of a request and writes its response.
func (s *server) answer(writer netpoll.Writer, state *session) (stays bool, err error) {
	request := state.parser.Request
	status := s.app.Status(state.gone)
	if status == 0 {
		return false, nil
	}
	_, err = writer.WriteBinary(s.answers.Header(status, request))
	if err == nil && !request.Head {
		_, err = writer.WriteBinary(s.app.Body)
	}
	s.app.Requests.Add(1)
	return !request.Close, err
}
