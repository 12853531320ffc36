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
	// askTimeout and mostDetail are the limits of a request for details after a failure.
	askTimeout = 10 * time.Second
	mostDetail = 64 << 10
)

// unread finds the URL whose error the go command shows in part: 8 short lines at most.
var unread = regexp.MustCompile(`reading (https?://\S+): [0-9]{3} `)

// detail requests the URL that the go command could not read again, and returns the whole error of the proxy, if any.
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
	text, _ := io.ReadAll(io.LimitReader(answer.Body, mostDetail)) // an incomplete text is good enough
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(string(text))
}

// client returns a client that trusts the same certificates as the go command, and uses no HTTP proxy.
func (d *Developer) client() *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	if content, err := os.ReadFile(d.config.Environment["SSL_CERT_FILE"]); err == nil {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(content)
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	return &http.Client{Transport: transport}
}

// credentials returns user and password of a host from a .netrc with lines `machine host login user password secret`.
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
