package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// request returns the response of a proxy with this upstream, and the files in its cache afterwards.
func request(t *testing.T, upstream http.HandlerFunc, at string) (status int, body string, cached []string) {
	t.Helper()
	t.Setenv("GOFLAGS", "-modcacherw")
	server := httptest.NewServer(upstream)
	defer server.Close()
	cache := t.TempDir()
	proxy, err := handler(server.URL, "private.example/go", cache, 1)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	proxy.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, at, nil))
	err = filepath.WalkDir(cache, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			cached = append(cached, strings.TrimPrefix(path, filepath.Join(cache, cacheFolder)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return recorder.Code, recorder.Body.String(), cached
}

func TestKeepsWhatItsUpstreamHas(t *testing.T) {
	info := `{"Version":"v1.0.0","Time":"2024-01-02T03:04:05Z"}`
	status, body, cached := request(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(info)) }, "/a.example/x/@v/v1.0.0.info")
	if status != http.StatusOK || body != info || len(cached) != 1 || cached[0] != "/a.example/x/@v/v1.0.0.info" {
		t.Errorf("%d %s, cached %v", status, body, cached)
	}
}

func TestKeepsNothingBroken(t *testing.T) {
	broken := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("PK\x03\x04 half of it")) }
	for _, file := range []string{"v1.0.0.zip", "v1.0.0.info", "v1.0.0.mod"} {
		if status, body, cached := request(t, broken, "/a.example/x/@v/"+file); status < 400 || len(cached) != 0 {
			t.Errorf("%s: %d %s, cached %v", file, status, body, cached)
		}
	}
	failing := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order", http.StatusInternalServerError)
	}
	if status, body, cached := request(t, failing, "/a.example/x/@v/v1.0.0.zip"); status < 400 || len(cached) != 0 {
		t.Errorf("%d %s, cached %v", status, body, cached)
	}
}

func TestPrivateModulesAreNotAskedForUpstream(t *testing.T) {
	upstream := func(http.ResponseWriter, *http.Request) { t.Error("the upstream got a request") }
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // no request goes to the internet either
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if status, body, _ := request(t, upstream, "/private.example/go/x/@v/list"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}
}
