-- What the names of version 9 said, as fields: "weak@batch_size=32/4" with 4 nodes, "vm+cpu@25%". The only code that takes a
-- name apart, for trials of old databases (?1 null) and for one that came from an old exchange record (?1 its id). A name
-- that is not wholly of this form is a name and nothing else.
WITH named AS MATERIALIZED (
  SELECT id, "case" AS name, arm, '/' || nodes AS ending, nodes, instr(arm, '+') AS plus
  FROM trial WHERE id BETWEEN ifnull(?1, 0) AND ifnull(?1, 9223372036854775807)
), sized AS (
  SELECT *, length(name) > length(ending) AND substr(name, -length(ending)) = ending AS has_size FROM named
), cut AS (
  SELECT *, CASE WHEN has_size THEN substr(name, 1, length(name) - length(ending)) ELSE name END AS rest,
         CASE WHEN plus > 1 THEN substr(arm, plus + 1) ELSE '' END AS beside
  FROM sized
), parts AS (
  SELECT *, CASE WHEN instr(rest, '@') > 1 THEN substr(rest, instr(rest, '@') + 1) ELSE '' END AS words,
         CASE WHEN instr(beside, '@') > 1 AND beside LIKE '%!%' ESCAPE '!'
              THEN substr(beside, instr(beside, '@') + 1, length(beside) - instr(beside, '@') - 1) ELSE '' END AS percent
  FROM cut
), read AS (
  SELECT *, CASE WHEN words NOT GLOB '*[^-A-Za-z0-9._+%:=,]*' AND words NOT GLOB '=*' AND words NOT GLOB '*,=*'
                 THEN '{"' || replace(replace(words, '=', '":"'), ',', '","') || '"}' END AS point,
         CASE WHEN percent GLOB '[0-9]*' AND percent NOT GLOB '*[^-0-9.e+]*' THEN CAST(percent AS REAL) / 100 END AS level
  FROM parts
), keyed AS MATERIALIZED (
  SELECT id, nodes, has_size, json_valid(point) AS has_point, point, rest, arm, plus, beside,
         CASE WHEN level > 0 AND level <= 1 THEN level END AS level
  FROM read
)
UPDATE trial
SET family = CASE WHEN k.has_point THEN substr(k.rest, 1, instr(k.rest, '@') - 1) WHEN k.has_size THEN k.rest END,
    scale = CASE WHEN k.has_size THEN k.nodes END,
    point = CASE WHEN k.has_point THEN k.point END,
    arm_like = CASE WHEN k.level IS NOT NULL OR k.beside = 'idle' THEN substr(k.arm, 1, k.plus - 1) ELSE arm_like END,
    neighbour = CASE WHEN k.level IS NOT NULL THEN substr(k.beside, 1, instr(k.beside, '@') - 1)
                     WHEN k.beside = 'idle' THEN 'idle' END,
    level = k.level
FROM keyed k WHERE k.id = trial.id
