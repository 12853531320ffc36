console.error("cannot read settings.json");
process.exit(3);
