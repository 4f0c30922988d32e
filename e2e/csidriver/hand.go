package csidriver

// DetachByHand is the opposite of [Driver.AttachByHand].
func (d *Driver) DetachByHand(volume, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.published[volume], node)
}
