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
		fault, at string
		status    int
		content   string
	}{
		{"none", "/a.example/!x/@v/list", 200, "v1.0.0\n"},
		{"none", "/a.example/%21x/@v/list", 200, "v1.0.0\n"},
		{"none", "/a.example/!x/@latest", 200, "{}"},
		{"none", "/a.example/!x/@v/v1.0.0.zip", 200, "0123456789"},
		{"half", "/a.example/!x/@v/v1.0.0.zip", 200, "01234"},
		{"half", "/a.example/!x/@v/list", 200, "v1.0.0\n"},
		{"500", "/a.example/!x/@v/v1.0.0.zip", 500, "injected fault\n"},
		{"none", "/a.example/!x/@v/v1.0.1.zip", 404, "not found: a.example/!x/@v/v1.0.1.zip\n"},
		{"none", "/a.example/!x/@v/", 404, "not found: a.example/!x/@v\n"},
		{"none", "/secret", 404, "not found: secret\n"},
		{"none", "/a.example/@v/../../secret", 404, "not found: secret\n"},
	} {
		recorder := httptest.NewRecorder()
		handler(root, test.fault).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, test.at, nil))
		if recorder.Code != test.status || recorder.Body.String() != test.content {
			t.Errorf("%s with %s: %d %q", test.at, test.fault, recorder.Code, recorder.Body)
		}
	}
}
