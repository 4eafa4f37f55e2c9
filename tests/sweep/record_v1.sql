-- A record of version 1, as drafts made it: opened by a test, which brings it up to date.
PRAGMA application_id = 1463962450;
PRAGMA user_version = 1;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  op TEXT NOT NULL, arch TEXT NOT NULL, backend TEXT NOT NULL, dtype TEXT NOT NULL,
  n INTEGER NOT NULL, h INTEGER NOT NULL, v INTEGER NOT NULL,
  status TEXT NOT NULL, fixture_id TEXT NOT NULL, order_hash TEXT, bits TEXT, error TEXT,
  config TEXT NOT NULL, inputs TEXT NOT NULL, provenance TEXT NOT NULL,
  drift TEXT, counters TEXT NOT NULL, ratio REAL, reference TEXT, passed INTEGER
);
INSERT INTO runs VALUES (1, 'old-1', 'lm_head', 'dav-2201', 'twin', 'fp32', 160, 576, 4096,
  'ok', '5f0c', '0a0a', 'beef', NULL, '{"tile_length": 64, "max_blocks": 40}',
  '{"fixture_id": "5f0c", "name": "smollm2", "seed": 3}',
  '{"source_digest": "abab", "compiler": "g++ 12.2.0", "workbench": "0.1", "torch": "2.13.0"}',
  '{"max_abs": 0.1, "mean_abs": 0.01, "rms": 0.02, "max_ulp": "inf"}',
  '{"gm_to_ub_bytes": 12345678901234}', 1.25, 'torch.mv', 1);
INSERT INTO runs VALUES (4, 'old-4', 'lm_head', 'dav-3510', 'twin', 'bf16', 1, 64, 8,
  'failed', '77aa', NULL, NULL, 'no compiler', '{"tile_length": 128}', '{"fixture_id": "77aa"}',
  '{"source_digest": "abab", "compiler": "g++ 12.2.0", "workbench": "0.1", "torch": "2.13.0"}',
  NULL, '{}', NULL, NULL, NULL);
DELETE FROM runs WHERE id = 9;
INSERT INTO runs SELECT 9, 'old-9', op, arch, backend, dtype, n + 1, h, v, status, fixture_id,
  order_hash, bits, error, config, inputs, provenance, drift, counters, ratio, reference, passed
  FROM runs WHERE id = 1;
DELETE FROM runs WHERE id = 9;
