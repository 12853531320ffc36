<?php
$turns = (int) getenv('TURNS');
for ($turn = 0; $turn < $turns; $turn++) {
}
header('Content-Type: text/plain');
echo "hello\n";
