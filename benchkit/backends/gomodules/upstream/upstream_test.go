package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestServesModulesAndNothingElse(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "a.example", "!x", "@v")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		filepath.Join(folder, "list"):                     "v1.0.0\n",
		filepath.Join(folder, "v1.0.0.zip"):               "0123456789",
		filepath.Join(root, "secret"):                     "s",
		filepath.Join(root, "a.example", "!x", "@latest"): "{}",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		at      string
		status  int
		content string
	}{
		{"/a.example/!x/@v/list", 200, "v1.0.0\n"},
		{"/a.example/%21x/@v/list", 200, "v1.0.0\n"},
		{"/a.example/!x/@latest", 200, "{}"},
		{"/a.example/!x/@v/v1.0.0.zip", 200, "0123456789"},
		{"/a.example/!x/@v/v1.0.1.zip", 404, "not found: a.example/!x/@v/v1.0.1.zip\n"},
		{"/a.example/!x/@v/", 404, "not found: a.example/!x/@v\n"},
		{"/secret", 404, "not found: secret\n"},
		{"/a.example/@v/../../secret", 404, "not found: secret\n"},
	} {
		recorder := httptest.NewRecorder()
		handler(root).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, test.at, nil))
		if recorder.Code != test.status || recorder.Body.String() != test.content {
			t.Errorf("%s: %d %q", test.at, recorder.Code, recorder.Body)
		}
	}
}
