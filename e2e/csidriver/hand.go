package csidriver

// DetachByHand is the opposite of [Driver.AttachByHand].
func (d *Driver) DetachByHand(volume, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.published[volume], node)
}

// OneAtATime has the driver refuse to publish the volume to a node while another
// has it, and name that, as most storage systems do.
func (d *Driver) OneAtATime(volume string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.oneAtATime[volume] = true
}
