package controlplane

// EtcdURL is where etcd serves its clients, for those who write what would take
// the API server too long. Nobody else should.
func (c *Cluster) EtcdURL() string { return "http://" + address(c.ports.etcdClient) }
