"""What runs as the first processes of a lab: standard library only, nothing imported after the mounts have changed."""
