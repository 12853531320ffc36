package main

import (
	"strings"
	"testing"
)

func TestEveryRowIsAskedForOnce(t *testing.T) {
	d := database{rows: 10000}
	seen := map[int32]bool{}
	for range d.rows {
		row := d.row()
		if row < 1 || int(row) > d.rows || seen[row] {
			t.Fatalf("row %d of %d, after %d others", row, d.rows, len(seen))
		}
		seen[row] = true
	}
}

func TestNumbersOutsideOfTheirRangeAreRefused(t *testing.T) {
	number := 8
	set := atLeastOne(&number)
	for _, value := range []string{"0", "-1", "10000001", "x", ""} {
		if set(value) == nil {
			t.Errorf("%q is taken", value)
		}
	}
	if err := set("10000000"); err != nil || number != 10_000_000 {
		t.Errorf("%d: %v", number, err)
	}
}

func TestADatabaseThatIsNotThereIsNamed(t *testing.T) {
	d := database{url: "postgres://nobody@127.0.0.1:1/none", size: 1, rows: 1}
	if err := d.serve(nil); err == nil || !strings.HasPrefix(err.Error(), "cannot use the database: ") {
		t.Error(err)
	}
}
