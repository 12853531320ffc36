package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// TestMain runs the program itself if a test has started it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("REDUCE_AS_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestUsage(t *testing.T) {
	for _, wrong := range []struct{ args, says string }{
		{"", "flag -tool is missing"},
		{"-tool hey", "flag -out is missing"},
		{"-tool wrk -out o", "expected one of ab, h2load, hey, openloop, siege, vegeta"},
		{"-tool hey -out o -interval 1ms", "flag -interval is for tools that number their requests"},
		{"-tool hey -out o more", `unexpected argument "more"`},
		{"-tool hey -rest o more", `unexpected argument "more"`},
		{"more", "flag -tool is missing"},
		{"-colour", "-colour"},
	} {
		var stderr bytes.Buffer
		expect(t, wrong.args, run(strings.Fields(wrong.args), strings.NewReader(""), io.Discard, &stderr), exitUsage)
		if !strings.Contains(stderr.String(), wrong.says) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: %s", wrong.args, stderr.String())
		}
	}
	var stdout bytes.Buffer
	expect(t, "help", run([]string{"-h"}, nil, &stdout, io.Discard), exitDone)
	expect(t, "help names the tools", strings.Contains(stdout.String(), "ab, h2load, hey, openloop, siege, vegeta"), true)
}

func TestFilesAppearWhole(t *testing.T) {
	folder := t.TempDir()
	out, rest := filepath.Join(folder, "out.json"), filepath.Join(folder, "rest.txt")
	args := []string{"-tool", "ab", "-out", out, "-rest", rest}
	expect(t, "exit code", run(args, strings.NewReader("Hello\n"+abTable+"Bye\n"), io.Discard, os.Stderr), exitDone)
	expect(t, "rows", readReport(t, out).Rows, 3)
	text, err := os.ReadFile(rest)
	expect(t, "rest", string(text), "Hello\nBye\n")
	expect(t, "rest", err, nil)
	files, err := os.ReadDir(folder)
	expect(t, "no other file remains", len(files), 2)
	expect(t, "no other file remains", err, nil)
}

func TestFilesOfRowsAreReducedAsTheInputIs(t *testing.T) {
	folder := t.TempDir()
	inputs := map[string]string{"one": "Hello\n" + abTable + "Bye\n", "two.rows": abTable, "none": ""}
	args := []string{"-tool", "ab"}
	for name, rows := range inputs {
		path := filepath.Join(folder, name)
		expect(t, "write", os.WriteFile(path, []byte(rows), 0o600), nil)
		args = append(args, path)
	}
	expect(t, "exit code", run(args, nil, io.Discard, os.Stderr), exitDone)
	for name, rows := range inputs {
		out, rest := filepath.Join(folder, "out.json"), filepath.Join(folder, "rest.txt")
		alone := []string{"-tool", "ab", "-out", out, "-rest", rest}
		expect(t, "exit code", run(alone, strings.NewReader(rows), io.Discard, os.Stderr), exitDone)
		expect(t, name+".json", readText(t, filepath.Join(folder, name+".json")), readText(t, out))
		expect(t, name+".txt", readText(t, filepath.Join(folder, name+".txt")), readText(t, rest))
	}
}

func TestAFileOfRowsThatCannotBeReadIsNamed(t *testing.T) {
	folder := t.TempDir()
	known := filepath.Join(folder, "known")
	expect(t, "write", os.WriteFile(known, []byte(heyRows), 0o600), nil)
	var stderr bytes.Buffer
	args := []string{"-tool", "hey", known, filepath.Join(folder, "unknown")}
	expect(t, "exit code", run(args, nil, io.Discard, &stderr), exitFailed)
	expect(t, "message", strings.Contains(stderr.String(), "unknown: no such file or directory"), true)
	expect(t, "rows of the file before", readReport(t, known+".json").Rows, 2)
}

func TestAFileThatCannotBeWrittenIsAnError(t *testing.T) {
	var stderr bytes.Buffer
	args := []string{"-tool", "hey", "-out", filepath.Join(t.TempDir(), "none", "out.json")}
	expect(t, "exit code", run(args, strings.NewReader(heyRows), io.Discard, &stderr), exitFailed)
	expect(t, "message", strings.Contains(stderr.String(), "no such file or directory"), true)
}

func TestAFailedReadKeepsTheRowsBefore(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.json")
	in := io.MultiReader(strings.NewReader(heyRows), iotest.ErrReader(errors.New("broken")))
	var stderr bytes.Buffer
	expect(t, "exit code", run([]string{"-tool", "hey", "-out", out}, in, io.Discard, &stderr), exitFailed)
	expect(t, "message", stderr.String(), "reduce: broken\n")
	report := readReport(t, out)
	expect(t, "rows", report.Rows, 2)
	expect(t, "ended", report.Ended, endedCut)
}

func TestASignalMakesItWriteItsRows(t *testing.T) {
	self, err := os.Executable()
	expect(t, "own program", err, nil)
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		out := filepath.Join(t.TempDir(), "out.json")
		command := exec.Command(self, "-tool", "hey", "-out", out)
		command.Env = append(os.Environ(), "REDUCE_AS_PROGRAM=1")
		command.Stderr = os.Stderr
		in, err := command.StdinPipe()
		expect(t, "pipe", err, nil)
		expect(t, "start", command.Start(), nil)
		row := "0.000239526,200,0.000131\n"
		sent := heyRows + strings.Repeat(row, 10_000) // far more than the buffer of a pipe: when all is written, it has read a part
		_, err = io.WriteString(in, sent)
		expect(t, "write", err, nil)
		expect(t, "signal", command.Process.Signal(signal), nil)
		expect(t, "wait", command.Wait(), nil)
		report := readReport(t, out)
		if report.Rows == 0 || report.Rows > 10_002 {
			t.Errorf("%d rows", report.Rows)
		}
		expect(t, "unread", report.Unread.Count, 0)
		expect(t, "ended", report.Ended, endedStopped)
	}
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
