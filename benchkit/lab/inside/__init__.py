"""Code of a lab's init processes: standard library only, and no imports after the mounts have changed."""
