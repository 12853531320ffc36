package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	// askTimeout and mostDetail bound what is asked of a proxy after a failure.
	askTimeout = 10 * time.Second
	mostDetail = 64 << 10
)

// unread finds what the go command could not read, of which it shows 8 short lines at most.
var unread = regexp.MustCompile(`reading (https?://\S+): [0-9]{3} `)

// detail asks once more for what the go command could not read, for all that the proxy says about it; empty where that is
// nothing.
func (d *Developer) detail(ctx context.Context, printed string) string {
	found := unread.FindStringSubmatch(printed)
	if found == nil {
		return ""
	}
	at, err := url.Parse(found[1])
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return ""
	}
	if login, password, known := d.credentials(at.Host); known && at.Scheme == "https" {
		request.SetBasicAuth(login, password)
	}
	answer, err := d.client().Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, mostDetail)) // what came of it will do
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(string(said))
}

// client trusts the certificates that the go command is told to trust, and goes by no proxy.
func (d *Developer) client() *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	if content, err := os.ReadFile(d.config.Environment["SSL_CERT_FILE"]); err == nil {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(content)
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	return &http.Client{Transport: transport}
}

// credentials are those of the .netrc for a host, each on a line of its own: `machine host login user password secret`.
func (d *Developer) credentials(host string) (login, password string, known bool) {
	content, err := os.ReadFile(d.config.Environment["NETRC"])
	if err != nil {
		return "", "", false
	}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) == 6 && words[0] == "machine" && words[1] == host {
			return words[3], words[5], true
		}
	}
	return "", "", false
}
