package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// publish writes versions of a module into a folder that the go command uses as a module proxy.
func publish(t *testing.T, root, name string, versions ...string) {
	t.Helper()
	folder := filepath.Join(root, filepath.FromSlash(name), "@v")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		source := t.TempDir()
		var zipped bytes.Buffer
		gomod := "module " + name + "\n\ngo 1.20\n"
		put(t, filepath.Join(source, "go.mod"), gomod)
		put(t, filepath.Join(source, "x.go"), "package x\n\nconst Version = \""+version+"\"\n")
		if err := zip.CreateFromDir(&zipped, module.Version{Path: name, Version: version}, source); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, version+".zip"), zipped.String())
		put(t, filepath.Join(folder, version+".mod"), gomod)
		put(t, filepath.Join(folder, version+".info"), `{"Version":"`+version+`"}`)
	}
	put(t, filepath.Join(folder, "list"), strings.Join(versions, "\n")+"\n")
}

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// setUpDeveloper returns a developer with a module proxy in a folder, which has a.example/x and a.example/fresh-1 to fresh-3.
func setUpDeveloper(t *testing.T, change func(*Config)) (*Developer, error) {
	t.Helper()
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	publish(t, root, "a.example/x", "v1.0.0", "v1.1.0")
	for _, name := range []string{"fresh-1", "fresh-2", "fresh-3"} {
		publish(t, root, "a.example/"+name, "v1.0.0")
	}
	config := &Config{
		Go:       goCommand,
		Scratch:  filepath.Join(t.TempDir(), "scratch"),
		Settings: map[string]string{"GOPROXY": "file://" + root, "GOSUMDB": "off", "GOTOOLCHAIN": "local"},
		Pull:     "a.example/x@v1.1.0",
		Proof: Proof{
			Get:      []string{"a.example/x@v1.1.0"},
			Versions: map[string]string{"a.example/x": `^v1\.1\.0$`},
			Program:  "package main\n\nimport (\n\t\"os\"\n\n\t\"a.example/x\"\n)\n\nfunc main() { os.Stdout.WriteString(x.Version) }\n",
			Output:   "v1.1.0",
		},
	}
	change(config)
	if err := config.check(); err != nil {
		return nil, err
	}
	developer, err := setUp(t.Context(), config)
	if err == nil {
		t.Cleanup(developer.removing.Wait)
	}
	return developer, err
}

func TestAProofHolds(t *testing.T) {
	developer, err := setUpDeveloper(t, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	var report bytes.Buffer
	one, err := developer.prove(t.Context(), &report)
	if err != nil {
		t.Fatal(err)
	}
	two, err := developer.prove(t.Context(), io.Discard)
	if err != nil || one != two || len(one) != 64 {
		t.Errorf("%s, then %s, %v", one, two, err)
	}
	for _, expected := range []string{"a.example/x v1.1.0\n", "a.example/x v1.1.0/go.mod h1:", "built and run in "} {
		if !strings.Contains(report.String(), expected) {
			t.Errorf("the output lacks %q:\n%s", expected, &report)
		}
	}
}

func TestSettingsOfTheUserDoNotApply(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOSUMDB", "sum.example")
	t.Setenv("GOFLAGS", "-mod=vendor")
	developer, err := setUpDeveloper(t, func(*Config) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := developer.pull(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFailedProofNamesTheReason(t *testing.T) {
	for _, test := range []struct {
		name     string
		change   func(*Proof)
		expected string
	}{
		{"no such module", func(p *Proof) { p.Get = []string{"a.example/nothing@v1.0.0"} }, "a.example/nothing@v1.0.0 failed"},
		{"another version", func(p *Proof) { p.Get = []string{"a.example/x@v1.0.0"} }, `a.example/x is used at "v1.0.0", expected ^v1\.1\.0$`},
		{"a program that does not build", func(p *Proof) { p.Program = "package main" }, "go build: "},
		{"a program with other output", func(p *Proof) { p.Output = "else" }, `printed "v1.1.0", expected "else"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			developer, err := setUpDeveloper(t, func(config *Config) { test.change(&config.Proof) })
			if err != nil {
				t.Fatal(err)
			}
			if _, err = developer.prove(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), test.expected) {
				t.Errorf("got %v, expected %s", err, test.expected)
			}
		})
	}
}

func TestEachPullOfANumberedModuleHasANewNumber(t *testing.T) {
	developer, err := setUpDeveloper(t, func(config *Config) { config.Pull = "a.example/fresh-{n}@v1.0.0" })
	if err != nil {
		t.Fatal(err)
	}
	answers := developer.handler("checksum")
	var statuses []int
	var last string
	for range 4 {
		recorder := httptest.NewRecorder()
		answers.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/pull", nil))
		statuses = append(statuses, recorder.Code)
		last = recorder.Body.String()
	}
	if statuses[0] != 200 || statuses[2] != 200 || statuses[3] != http.StatusBadGateway {
		t.Errorf("%v", statuses)
	}
	if !strings.Contains(last, "a.example/fresh-4@v1.0.0 failed") {
		t.Errorf("%s", last)
	}
}

func TestTheWholeErrorOfAProxyIsShown(t *testing.T) {
	long := strings.Repeat("one of many lines\n", 20) + `{"Error": "git ls-remote: exit status 128:\n\tHost key verification failed."}`
	var logins []string
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		login, password, _ := r.BasicAuth()
		logins = append(logins, login+":"+password)
		http.Error(w, long, http.StatusNotFound)
	}))
	defer proxy.Close()
	folder := t.TempDir()
	certificate, netrc := filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "netrc")
	put(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})))
	put(t, netrc, "machine "+strings.TrimPrefix(proxy.URL, "https://")+" login alice password secret\n")
	developer, err := setUpDeveloper(t, func(config *Config) {
		config.Settings["GOPROXY"] = proxy.URL
		config.Environment = map[string]string{"NETRC": netrc, "SSL_CERT_FILE": certificate}
		config.Pull = "a.example/x@v1.0.0"
	})
	if err != nil {
		t.Fatal(err)
	}
	err = developer.pull(t.Context())
	expected := "a.example/x@v1.0.0 failed at git over SSH: the git server's host key differs from the expected one"
	if err == nil || err.Error() != expected {
		t.Errorf("%v", err)
	}
	for _, each := range logins {
		if each != "alice:secret" {
			t.Errorf("request with credentials %s", each)
		}
	}
}

func TestUnknownGoSettingsAreRejected(t *testing.T) {
	if _, err := setUpDeveloper(t, func(config *Config) { config.Settings["GONONSENSE"] = "x" }); err == nil || !strings.Contains(err.Error(), "GONONSENSE") {
		t.Errorf("%v", err)
	}
}

func TestInvalidConfigsAreRejected(t *testing.T) {
	for expected, change := range map[string]func(*Config){
		"absolute paths":                func(c *Config) { c.Go = "go" },
		"a module and its version":      func(c *Config) { c.Pull = "a.example/x" },
		"proof: versions: a.example/x:": func(c *Config) { c.Proof.Versions["a.example/x"] = "(" },
	} {
		if _, err := setUpDeveloper(t, change); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("expected %s, got %v", expected, err)
		}
	}
	file := filepath.Join(t.TempDir(), "developer.json")
	put(t, file, `{"goo": "x"}`)
	if _, err := readConfig(file); err == nil || !strings.Contains(err.Error(), `unknown field "goo"`) {
		t.Errorf("%v", err)
	}
}
