// Command hertz is a server on cloudwego/hertz, the HTTP framework on netpoll's event loops.
package main

import (
	"context"
	"io"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/network/netpoll"
	"github.com/cloudwego/hertz/pkg/protocol"

	"benchkit/backends/kit"
)

func main() { kit.Main("hertz", serve) }

func serve(backend *kit.App) error {
	listener, err := backend.Open()
	if err != nil {
		return err
	}
	hlog.SetOutput(io.Discard)
	engine := server.New(
		server.WithListener(listener),
		server.WithNetwork("tcp"), // for a unix socket, hertz would remove the file before it serves
		server.WithTransport(netpoll.NewTransporter),
		server.WithDisablePrintRoute(true),
	)
	engine.Name = kit.Server
	engine.Any("/*path", func(_ context.Context, c *app.RequestContext) { answer(backend, c) })
	return engine.Engine.Run()
}

func answer(backend *kit.App, c *app.RequestContext) {
	status := backend.Status(c.Finished())
	if status == 0 {
		c.Abort()
		return
	}
	c.SetStatusCode(status)
	c.SetContentType(kit.ContentType)
	if !closes(&c.Request.Header) {
		c.Response.Header.Set("Connection", kit.Connection)
	}
	for _, field := range backend.Faults.Headers {
		c.Response.Header.Add(field.Name, field.Value)
	}
	// Writing to a context cannot fail.
	_, _ = c.Write(backend.Body)
	backend.Requests.Add(1)
}

// closes reports whether hertz will close the connection and set the header field itself.
func closes(header *protocol.RequestHeader) bool {
	return header.ConnectionClose() || !header.IsHTTP11()
}
