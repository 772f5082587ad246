package lab

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// contextName is the cluster, user and context in every kubeconfig of the lab.
const contextName = "sluice-lab"

// KubeconfigFor writes a kubeconfig for a ServiceAccount that exists and returns its
// path. It holds a token from the TokenRequest API, valid for limits.LabToken, so its
// user has the rights that RBAC gives the ServiceAccount and no others.
func (c *Cluster) KubeconfigFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceAccount}}
	seconds := int64(limits.LabToken.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token for ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	access := &rest.Config{
		Host:            c.config.Host,
		BearerToken:     request.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.config.CAData},
	}
	path := filepath.Join(c.dir, fmt.Sprintf("%s.%s.kubeconfig", namespace, serviceAccount))
	return path, writeKubeconfig(path, access, namespace)
}

// writeKubeconfig writes a kubeconfig that only the user can read, with everything it
// refers to inside it.
func writeKubeconfig(path string, access *rest.Config, namespace string) error {
	k := clientcmdapi.NewConfig()
	k.Clusters[contextName] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	k.AuthInfos[contextName] = &clientcmdapi.AuthInfo{
		Token: access.BearerToken, ClientCertificateData: access.CertData, ClientKeyData: access.KeyData,
	}
	k.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName, Namespace: namespace}
	k.CurrentContext = contextName
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return nil
}
