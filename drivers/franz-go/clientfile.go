package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Encryption and login, with librdkafka's names.
type clientFile struct {
	Properties map[string]string `json:"properties"`
	TokenFile  string            `json:"token_file"`
}

// Returns the options of a client file; none without a file.
func readClientFile(path string) ([]kgo.Opt, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file clientFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	var opts []kgo.Opt
	if strings.HasSuffix(file.Properties["security.protocol"], "ssl") {
		config, err := file.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	login, err := file.login()
	if login != nil {
		opts = append(opts, login)
	}
	return opts, err
}

func (f *clientFile) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca, given := f.Properties["ssl.ca.pem"]; given {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("ssl.ca.pem has no certificate")
		}
	}
	if chain, given := f.Properties["ssl.certificate.pem"]; given {
		pair, err := tls.X509KeyPair([]byte(chain), []byte(f.Properties["ssl.key.pem"]))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if f.Properties["ssl.endpoint.identification.algorithm"] == "none" {
		// The chain is still verified, only the host name is not.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, certificate := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(certificate)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		}
	}
	return config, nil
}

func (f *clientFile) login() (kgo.Opt, error) {
	user, password := f.Properties["sasl.username"], f.Properties["sasl.password"]
	switch mechanism := f.Properties["sasl.mechanism"]; mechanism {
	case "":
		return nil, nil
	case "PLAIN":
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()), nil
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), nil
	case "OAUTHBEARER":
		token, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return nil, err
		}
		return kgo.SASL(oauth.Auth{Token: string(token)}.AsMechanism()), nil
	default:
		return nil, fmt.Errorf("no login with %q in this driver", mechanism)
	}
}
