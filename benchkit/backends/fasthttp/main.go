// Command fasthttp is a server on valyala/fasthttp, which study 4 compares with net/http.
package main

import (
	"crypto/tls"
	"flag"

	"github.com/valyala/fasthttp"

	"benchkit/backends/kit"
)

var hop kit.TLS

func main() {
	var l limits
	kit.Main("fasthttp", l.serve, hop.Define(kit.HTTP1, kit.HTTPS1), l.flags)
}

// limits are the options of fasthttp itself.
type limits struct {
	concurrency int // connections that are served at a time; 0: fasthttp's default, 262144
}

func (l *limits) flags(flags *flag.FlagSet) {
	flags.IntVar(&l.concurrency, "concurrency", 0, "`connections` that are served at a time; others get status 503; fasthttp's default unless given")
}

// serve serves without timeouts, as the study did.
func (l *limits) serve(app *kit.App) error {
	var config *tls.Config
	if hop.IsOn() {
		var err error
		if config, err = hop.Config(); err != nil {
			return err
		}
	}
	listener, err := app.Open()
	if err != nil {
		return err
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	server := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { answer(app, ctx) },
		Name:    kit.Server,
		Logger:  silence{},

		Concurrency: l.concurrency,
	}
	return server.Serve(listener)
}

func answer(app *kit.App, ctx *fasthttp.RequestCtx) {
	status := app.Status(nil)
	ctx.SetStatusCode(status)
	ctx.SetContentType(kit.ContentType)
	if !closes(&ctx.Request.Header) {
		ctx.Response.Header.Set("Connection", kit.Connection)
	}
	for _, field := range app.Faults.Headers {
		ctx.Response.Header.Add(field.Name, field.Value)
	}
	// Writing to a context cannot fail.
	_, _ = ctx.Write(app.Body)
	app.Requests.Add(1)
}

// closes reports whether fasthttp will close the connection and set the header field itself.
func closes(header *fasthttp.RequestHeader) bool {
	return header.ConnectionClose() || !header.IsHTTP11()
}

// silence is a logger that prints nothing: invalid requests and closed connections are not reported.
type silence struct{}

func (silence) Printf(string, ...any) {}
