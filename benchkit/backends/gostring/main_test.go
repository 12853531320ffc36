package main

import (
	"testing"

	"benchkit/backends/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m, main) }

func TestCommandLine(t *testing.T) { kittest.CommandLine(t) }

func TestAdmin(t *testing.T) { kittest.Admin(t) }

func TestHTTP(t *testing.T) { kittest.HTTP(t) }
