// Command h3 is the server nethttp on quic-go's http3: the same handler over HTTP/3. It is a module of its own, so that
// nethttp has no dependency, and compiles with each Go release that scenarios compare.
package main

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"sync/atomic"
	"time"

	"benchkit/backends/kit"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// maxStreams is how many requests a client may have in flight on a connection: as many as net/http allows in HTTP/2.
const maxStreams = 250

// idleTimeout closes connections that no packet has used for so long. oha waits for that at its end, or for 30 s.
const idleTimeout = 2 * time.Second

var (
	hop              kit.TLS
	accepted, closed atomic.Uint64
)

func main() { kit.Main("nethttp", serve, hop.Define(kit.H3)) }

func serve(app *kit.App) error {
	hop.Protocol = kit.H3
	config, err := hop.Config()
	if err != nil {
		return err
	}
	app.HasNoConnectionField = true
	socket, err := app.OpenUDP()
	if err != nil {
		return err
	}
	expvar.Publish("connections", expvar.Func(func() any {
		ended := closed.Load() // before those accepted: never more than they are
		begun := accepted.Load()
		return json.RawMessage(fmt.Sprintf(`{"accepted":%d,"open":%d}`, begun, begun-ended))
	}))
	server := &http3.Server{
		Handler:     app,
		TLSConfig:   config,
		QUICConfig:  &quic.Config{MaxIncomingStreams: maxStreams, MaxIdleTimeout: idleTimeout, Allow0RTT: hop.EarlyData},
		ConnContext: count,
	}
	return server.Serve(socket)
}

func count(ctx context.Context, connection *quic.Conn) context.Context {
	accepted.Add(1)
	context.AfterFunc(connection.Context(), func() { closed.Add(1) })
	return ctx
}
