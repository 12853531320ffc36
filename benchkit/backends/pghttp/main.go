// Command pghttp is a server on net/http whose handlers ask PostgreSQL, by a pool of connections of jackc/pgx.
//
// It creates its table at its start, unless it is there: rows 1 … -rows with numbers that follow from the row, so that every
// answer can be checked. The paths are those of the requests that benchmarks of frameworks have:
//
//	/            the body of all backends, without the database
//	/one         one row, one query
//	/twenty      twenty rows, a query for each
//	/update      one row, read and written back with a number one higher in a transaction
//
// The row of a request follows from a counter, not from chance, so that all runs ask for the same rows.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"benchkit/backends/kit"
)

const (
	queriesOfMany = 20
	// stride leads from row to row: it has no divisor in common with the usual numbers of rows, so that all are asked for.
	stride = 7919
	// factor leads from a row to its number, which every answer is checked by.
	factor = 17
	// connectWithin is the time that the database has to accept the first connection.
	connectWithin = 10 * time.Second

	createTable = `CREATE TABLE IF NOT EXISTS world (id integer PRIMARY KEY, number bigint NOT NULL, updates bigint NOT NULL)`
	fillTable   = `INSERT INTO world SELECT id, id::bigint * $2, 0 FROM generate_series(1, $1) AS id ON CONFLICT DO NOTHING`
	selectRow   = `SELECT number FROM world WHERE id = $1`
	lockRow     = `SELECT updates FROM world WHERE id = $1 FOR UPDATE`
	updateRow   = `UPDATE world SET updates = $2 WHERE id = $1`
)

// Row is a row of an answer.
type Row struct {
	ID     int32 `json:"id"`
	Number int64 `json:"number"`
}

// Updated is the answer to an update.
type Updated struct {
	ID      int32 `json:"id"`
	Updates int64 `json:"updates"`
}

type database struct {
	url  string
	size int
	rows int

	pool *pgxpool.Pool
	app  *kit.App
	next atomic.Uint64
}

func main() {
	var d database
	kit.Main("pghttp", d.serve, d.flags)
}

func (d *database) flags(flags *flag.FlagSet) {
	flags.StringVar(&d.url, "database", "", "`URL` of the database: postgres://user@127.0.0.1:5432/name")
	d.size, d.rows = 8, 10000
	flags.Func("pool", "`connections` to the database; default: 8", atLeastOne(&d.size))
	flags.Func("rows", "`rows` of its table; default: 10000", atLeastOne(&d.rows))
}

func atLeastOne(target *int) func(string) error {
	return func(value string) error {
		number, err := strconv.Atoi(value)
		if err != nil || number < 1 || number > 10_000_000 {
			return errors.New("expected a number from 1 to 10000000")
		}
		*target = number
		return nil
	}
}

func (d *database) serve(app *kit.App) error {
	d.app = app
	if err := d.open(); err != nil {
		return fmt.Errorf("cannot use the database: %w", err)
	}
	defer d.pool.Close()
	listener, err := app.Open()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", app)
	mux.HandleFunc("/one", d.one)
	mux.HandleFunc("/twenty", d.twenty)
	mux.HandleFunc("/update", d.update)
	return (&http.Server{Handler: mux}).Serve(listener)
}

// open opens all connections of the pool, so that no request waits for one, and fills the table.
func (d *database) open() error {
	config, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns = int32(d.size), int32(d.size)
	ctx, cancel := context.WithTimeout(context.Background(), connectWithin)
	defer cancel()
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, createTable); err != nil {
		return err
	}
	_, err = d.pool.Exec(ctx, fillTable, d.rows, factor)
	return err
}

func (d *database) row() int32 {
	return int32(d.next.Add(1)*stride%uint64(d.rows)) + 1
}

func (d *database) one(w http.ResponseWriter, r *http.Request) {
	row, err := d.read(r.Context())
	d.answer(w, r, row, err)
}

func (d *database) twenty(w http.ResponseWriter, r *http.Request) {
	rows := make([]Row, queriesOfMany)
	for i := range rows {
		row, err := d.read(r.Context())
		if err != nil {
			d.answer(w, r, nil, err)
			return
		}
		rows[i] = row
	}
	d.answer(w, r, rows, nil)
}

func (d *database) read(ctx context.Context) (Row, error) {
	row := Row{ID: d.row()}
	err := d.pool.QueryRow(ctx, selectRow, row.ID).Scan(&row.Number)
	if err == nil && row.Number != int64(row.ID)*factor {
		err = fmt.Errorf("row %d has the number %d instead of %d", row.ID, row.Number, int64(row.ID)*factor)
	}
	return row, err
}

func (d *database) update(w http.ResponseWriter, r *http.Request) {
	updated := Updated{ID: d.row()}
	err := pgx.BeginFunc(r.Context(), d.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(r.Context(), lockRow, updated.ID).Scan(&updated.Updates); err != nil {
			return err
		}
		updated.Updates++
		_, err := tx.Exec(r.Context(), updateRow, updated.ID, updated.Updates)
		return err
	})
	d.answer(w, r, updated, err)
}

// answer sends a value as JSON, or status 500 with the error, which the load tool counts.
func (d *database) answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	status := d.app.Status(r.Context().Done())
	if status == 0 {
		return
	}
	var body []byte
	if err == nil {
		body, err = json.Marshal(value)
	}
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(err.Error())
	}
	d.app.SetHeader(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// An error means that the client has closed the connection; the server prints nothing for a request.
	_, _ = w.Write(body)
	d.app.Requests.Add(1)
}
