package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"benchkit/backends/kit"
	"benchkit/backends/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m, main) }

func TestCommandLine(t *testing.T) { kittest.CommandLine(t) }

func TestAdmin(t *testing.T) { kittest.Admin(t) }

// The header fields that net/http sends with every file in addition to those of all servers.
func TestHTTP(t *testing.T) {
	kittest.HTTP(t,
		kittest.Extra{Name: "Accept-Ranges", Length: len("bytes")},
		kittest.Extra{Name: "Last-Modified", Length: len("Mon, 02 Jan 2006 15:04:05 GMT")},
	)
}

func TestAListing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "www")
	server := kittest.Start(t, "-listen", "127.0.0.1:0", "-root", root, "-listing", "3", "-body-size", "5")
	client := kittest.Dial(t, server.Address)
	listing := client.Get(t)
	want := "<pre>\n"
	for i := range 3 {
		want += fmt.Sprintf("<a href=\"file%05d.txt\">file%05d.txt</a>\n", i+1, i+1)
	}
	if body := string(listing.Body); listing.Status != 200 || !strings.HasSuffix(body, want+"</pre>\n") {
		t.Errorf("status %d: %q", listing.Status, body)
	}
	if listing.Fields.Get("Server") != kit.Server || listing.Fields.Get("Connection") != kit.Connection {
		t.Errorf("header %q", listing.Header)
	}
	if content, err := os.ReadFile(filepath.Join(root, "file00003.txt")); err != nil || string(content) != "Hello" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestAnotherStartLeavesNoOldFiles(t *testing.T) {
	root := t.TempDir()
	for _, listing := range []string{"5", "2"} {
		kittest.Start(t, "-listen", "127.0.0.1:0", "-root", root, "-listing", listing)
	}
	if files, err := os.ReadDir(root); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestATemporaryFolderGoesWithTheServer(t *testing.T) {
	server := kittest.Start(t, "-listen", "127.0.0.1:0")
	if folders, err := os.ReadDir(server.Temporary); err != nil || len(folders) != 1 {
		t.Errorf("%v, %v", folders, err)
	}
	server.End(t, syscall.SIGTERM)
	if folders, err := os.ReadDir(server.Temporary); err != nil || len(folders) != 0 {
		t.Errorf("%v, %v", folders, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, listing := range []string{"0", "-1", "many", "100001"} {
		code, stderr := kittest.Refused(t, "-listen", "127.0.0.1:0", "-listing", listing)
		if code != 2 || !strings.Contains(stderr, "-listing") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", listing, code, stderr)
		}
	}
}
