<?php
usleep(20000);
echo "Hello World\n";
