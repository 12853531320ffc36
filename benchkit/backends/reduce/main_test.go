package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestUsage(t *testing.T) {
	for _, wrong := range []struct{ args, says string }{
		{"", "flag -tool is missing"},
		{"-tool hey", "no file with rows was given"},
		{"-tool wrk rows", "expected one of ab, h2load, hey, k6, openloop, siege, vegeta"},
		{"-tool hey -interval 1ms rows", "flag -interval is for tools that number their requests"},
		{"rows", "flag -tool is missing"},
		{"-colour", "-colour"},
	} {
		var stderr bytes.Buffer
		expect(t, wrong.args, run(strings.Fields(wrong.args), io.Discard, &stderr), exitUsage)
		if !strings.Contains(stderr.String(), wrong.says) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: %s", wrong.args, stderr.String())
		}
	}
	var stdout bytes.Buffer
	expect(t, "help", run([]string{"-h"}, &stdout, io.Discard), exitDone)
	expect(t, "help names the tools", strings.Contains(stdout.String(), "ab, h2load, hey, k6, openloop, siege, vegeta"), true)
}

func TestEachFileGetsItsReductionAndOtherTextBesideIt(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one"), filepath.Join(folder, "two.rows")
	expect(t, "write", os.WriteFile(one, []byte("Hello\n"+abTable+"Bye\n"), 0o600), nil)
	expect(t, "write", os.WriteFile(two, nil, 0o600), nil)
	expect(t, "exit code", run([]string{"-tool", "ab", one, two}, io.Discard, os.Stderr), exitDone)
	expect(t, "rows", readReport(t, one+".json").Rows, 3)
	expect(t, "rest", readText(t, one+".txt"), "Hello\nBye\n")
	expect(t, "rows of an empty file", readReport(t, two+".json").Rows, 0)
	expect(t, "rest of an empty file", readText(t, two+".txt"), "")
	files, err := os.ReadDir(folder)
	expect(t, "no other file remains", len(files), 6)
	expect(t, "no other file remains", err, nil)
}

func TestAFileOfRowsThatCannotBeReadIsNamed(t *testing.T) {
	folder := t.TempDir()
	known := filepath.Join(folder, "known")
	expect(t, "write", os.WriteFile(known, []byte(heyRows), 0o600), nil)
	var stderr bytes.Buffer
	args := []string{"-tool", "hey", known, filepath.Join(folder, "unknown")}
	expect(t, "exit code", run(args, io.Discard, &stderr), exitFailed)
	expect(t, "message", strings.Contains(stderr.String(), "unknown: no such file or directory"), true)
	expect(t, "rows of the file before", readReport(t, known+".json").Rows, 2)
}

func TestAFileThatCannotBeWrittenIsAnError(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows")
	expect(t, "write", os.WriteFile(rows, []byte(heyRows), 0o600), nil)
	expect(t, "a folder in its place", os.Mkdir(rows+".json", 0o700), nil)
	var stderr bytes.Buffer
	expect(t, "exit code", run([]string{"-tool", "hey", rows}, io.Discard, &stderr), exitFailed)
	expect(t, "message names the file", strings.Contains(stderr.String(), rows+".json"), true)
}

func TestAFailedReadKeepsTheRowsBefore(t *testing.T) {
	tally, broken := newTally(0), errors.New("broken")
	ended, err := tools["hey"].read(io.MultiReader(strings.NewReader(heyRows), iotest.ErrReader(broken)), tally)
	expect(t, "error", err, broken)
	expect(t, "ended", ended, endedCut)
	report, _, _ := documented(t, "hey", tally, ended)
	expect(t, "rows", report.Rows, 2)
}

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	expect(t, "read", err, nil)
	return string(content)
}

func readReport(t *testing.T, path string) report {
	t.Helper()
	content, err := os.ReadFile(path)
	expect(t, "read", err, nil)
	var report report
	expect(t, "JSON", json.Unmarshal(content, &report), nil)
	return report
}
