#!/usr/bin/python3
"""gpu_check_figures_test.py SOURCE: what scripts/gpu-check measures, with stand-ins for trainer, probe and PyTorch."""

import argparse
import importlib
import json
import os
import sys
import unittest
import unittest.mock

from gpu_check_stage import TRAINER, Clock, Stage, out_of_time, patch
import bandwidth
import machine
import speed
import trainer


class Speed(Stage):
    # Images per second by variant; each turn is faster by one. Words are what it ends with.
    PEER = """import json, sys
flags = dict(word[2:].split("=") for word in sys.argv[1:])
about = json.load(open("peers"))[flags["variant"]]
with open("log", "a") as log: log.write(flags["variant"] + "\\n")
if isinstance(about, str): sys.exit("what came before\\n" + about + "\\nthe compiler's last words")
print("a warning\\n" + json.dumps({"images_per_second": about + open("log").read().split().count(flags["variant"])}))
"""

    def run_speed(self, fails_at="0", last_loss="3.2", torch=True, peers=None, **given):
        self.program(trainer.TRAINER, TRAINER)
        (self.folder / "peer.py").write_text(self.PEER, encoding="utf-8")
        peers = {"eager": 500, "graph": 600, "compile": 900, "compile-graphs": 800, **(peers or {})}
        (self.folder / "peers").write_text(json.dumps(peers), encoding="utf-8")
        (self.folder / "log").write_text("")
        with patch.dict(os.environ, FAILS_AT=fails_at, LAST_LOSS=last_loss), patch.object(speed, "SCRIPT", "peer.py"), \
                patch.object(machine, "has_torch", lambda: torch):
            outcome = speed.speed(self.session(**given))
        return outcome, self.rows()[1:] if (self.folder / "out" / "summary.md").exists() else []

    def test_the_fastest_variant_takes_turns_with_ours_and_medians_are_compared(self):
        outcome, rows = self.run_speed()
        self.assertEqual([line.split()[0] for line in self.log()],
                         ["ours", "eager", "graph", "compile-graphs", "compile", "compile", "ours", "ours", "compile"])
        # The medians of 1001 to 1003 and of 901 to 903.
        self.assertEqual((outcome, rows), ("ok", [["fp16", "256", "1,002", "902 (compile)", "1.11", "3 / 3", "full", "41.5", "1,980",
                                                   "power 25 %"]]))
        self.assertIn("\n- fp16, batch 256: PyTorch eager 501, graph 601, compile-graphs 801, compile 902\n- fp16, no fusion none: "
                      "no engine\n", self.current.text())
        self.assertEqual([round(row["images_per_second"]) for row in self.kept("speed") if row["side"] == "ours"], [1001, 1002, 1003])
        self.assertIn("--num_batches=100 --num_warmup_batches=10 --steady_seconds=6 --display_every=10", self.log()[0])

    def test_ours_come_first_and_further_batches_meet_the_fastest_variant_only(self):
        outcome, rows = self.run_speed(precision=["fp16", "bf16"], batch_size=[256, 512], rounds=2)
        self.assertEqual([line.split()[0] for line in self.log()], [
            "ours", "ours", "eager", "graph", "eager", "graph", "compile-graphs", "compile", "compile-graphs", "compile",
            "compile", "ours", "compile", "ours", "ours", "ours", "compile", "compile"])
        self.assertEqual((outcome, [row[:2] + row[5:6] for row in rows]), ("ok", [
            ["fp16", "256", "2 / 2"], ["bf16", "256", "2 / 2"], ["fp16", "512", "1 / 1"], ["bf16", "512", "1 / 1"]]))

    def test_compiled_variants_are_compiled_beside_the_build_and_none_outlives_it(self):
        (self.folder / "peer.py").write_text("import sys, time\nopen(sys.argv[1] + sys.argv[2], 'w').close()\n"
                                             "time.sleep(60 if 'bf16' in sys.argv[2] else 0)", encoding="utf-8")
        with patch.object(speed, "SCRIPT", "peer.py"), patch.object(os, "cpu_count", lambda: 16), \
                patch.object(speed.Compiling, "MOST_SECONDS", 2):
            with speed.Compiling(self.session(sections=["speed"], precision=["fp16", "bf16"])) as compiling:
                self.assertEqual(len(compiling.processes), 4)
            self.assertEqual([process.poll() for process in compiling.processes], [0, -9, 0, -9])
            self.assertEqual(len(list(self.folder.glob("--variant=compile*"))), 4)
            for arguments in ({"sections": ["passes"]}, {"sections": ["speed"], "build_only": True}):
                with speed.Compiling(self.session(**arguments)) as compiling:
                    self.assertEqual(compiling.processes, [])

    def test_variants_that_fail_are_named_and_ours_goes_on(self):
        outcome, rows = self.run_speed(peers={"compile": "no such thing", "compile-graphs": "CUDA out of memory."}, rounds=2)
        self.assertEqual((outcome, rows[0][:6]), ("ok", ["fp16", "256", "1,002", "602 (graph)", "1.67", "2 / 2"]))
        self.assertIn("compile-graphs FAILED: CUDA out of memory., compile FAILED: exit 1: the compiler's last words", self.current.text())
        outcome, rows = self.run_speed(torch=False, rounds=2)
        self.assertEqual((outcome, rows[0][:6]), ("ok", ["fp16", "256", "1,002", "–", "–", "2 / 0"]))

    def test_ours_that_fails_or_does_not_train_is_no_figure_and_a_batch_that_does_not_fit_no_failure(self):
        for given, words in (({"fails_at": "1"}, "FAILED: exit 1: an illegal access"), ({"fails_at": "2"}, "FAILED: exit 1: an illegal access"),
                             ({"last_loss": "6.9"}, "FAILED: it does not train: the loss was 7.1 after the first step and is 6.9"),
                             ({"last_loss": "NaN"}, "FAILED: it does not train"), ({"last_loss": "null"}, "FAILED: it does not train")):
            outcome, rows = self.run_speed(**given)
            self.assertTrue(rows[0][2].startswith(words), rows)
            self.assertEqual((outcome, rows[0][4]), ("FAILED", "–"))
        outcome, rows = self.run_speed(batch_size=[4096, 256], rounds=1)
        self.assertEqual((outcome, [row[2] for row in rows]), ("ok", [
            "left out: plan the memory: batch 4096 does not fit in 79.1 GiB; the largest that does is 1800", "1,002"]))

    def test_what_time_cuts_off_is_named_and_what_was_measured_stays(self):
        clock = Clock()
        run = speed.run_pytorch

        def last(session, case, variant):
            clock.now += 30
            return run(session, case, variant)
        with patch.object(speed, "run_pytorch", last):
            outcome, rows = self.run_speed(seconds=70, clock=clock, precision=["fp16", "bf16"])
        self.assertEqual(outcome, "ok; left out from bf16 eager on: 10 s left")
        self.assertEqual([row[2:6] for row in rows], [["1,001", "601 (graph)", "1.67", "1 / 1"], ["1,002", "–", "–", "1 / 0"]])
        self.assertIn("graph 601, compile-graphs not tried, compile not tried", self.current.text())
        with patch.object(trainer, "run", out_of_time):
            self.assertEqual(self.run_speed()[0], "left out from fp16 ours on: cut off after 7 s")


class Trainer(Stage):
    def run_trainer(self, script, seconds=None, **more):
        self.program(trainer.TRAINER, script)
        return trainer.run(self.session(seconds), "--precision=fp16", **more)

    def test_how_a_run_ends(self):
        error = """echo '{"record":"error","rank":0,"operation":"out of memory","message":"batch 4096"}'; exit 4"""
        for script, given, kind, words in ((error, {}, trainer.Failed, "out of memory: batch 4096"),
                                           ("exit 0", {}, trainer.Failed, "exit 0: no output"),
                                           ("exec sleep 60", {"most": 0.2}, trainer.Failed, "not done in time"),
                                           ("exec sleep 60", {"seconds": 0.2}, trainer.OutOfTime, "cut off after 0 s")):
            with self.assertRaises(trainer.Failed) as raised:
                self.run_trainer(script, **given)
            self.assertIs(type(raised.exception), kind)
            self.assertIn(words, str(raised.exception))
        self.assertEqual(len(self.kept("failure")), 3)

    def test_records(self):
        records = self.run_trainer("""read go
echo '{"record":"hello","rank":0,"size":2}'; echo 'cuDNN says something'; echo '{broken'
echo '{"record":"result","rank":1,"scope":"rank","images_per_second":2}'
echo '{"record":"result","rank":0,"scope":"rank","images_per_second":1,"words":"'$1$go'"}'
echo '{"record":"result","rank":0,"scope":"tenant","images_per_second":3}'
""")
        self.assertEqual((records["hello"]["size"], records["result"]["words"], len(records["ranks"])), (2, "--precision=fp16go", 2))
        self.assertEqual(trainer.images_per_second(records), 1)


class Bandwidth(Stage):
    def test_operations_are_summed_by_pass(self):
        def operation(name, seconds, moved):
            return {"pass": name, "seconds": seconds, "bytes": moved}
        operations = [operation("norm apply", 0.002, 4e9), operation("pool", 0.001, 1e9), operation("norm apply", 0.001, 5e9)]
        rows = [[row[key] for key in ("pass", "operations", "share", "bytes_per_second", "of_floor")]
                for row in bandwidth.by_pass(operations, 4e12)]
        self.assertEqual(rows, [["norm apply", 2, 0.75, 3e12, 0.75], ["pool", 1, 0.25, 1e12, 0.25], ["all", 3, 1, 2.5e12, 0.625]])
        self.assertIsNone(bandwidth.by_pass(operations, None)[0]["of_floor"])
        self.assertEqual(bandwidth.by_pass([], 4e12), [])

    def test_the_operations_furthest_above_their_bytes(self):
        operations = [{"name": name, "seconds": seconds, "bytes": 4e6, "graph": "g", "engine": "e"}
                      for name, seconds in (("near", 2e-6), ("far", 5e-6), ("at", 1e-6))]
        self.assertEqual(bandwidth.furthest(operations, 4e12, 2), [["far", "5", "1", "4", "g", "e"], ["near", "2", "1", "1", "g", "e"]])

    def test_the_table_of_a_profile(self):
        self.program(trainer.TRAINER, """for flag; do case $flag in --profile_step=*) file=${flag#*=};; esac; done
echo '{"name":"conv1 forward","pass":"convolution forward","seconds":0.002,"bytes":4000000000}' > "$file"
echo '{"record":"ready","rank":0,"fusion":"full"}'; echo '{"record":"warmup","rank":0,"loss":7.1}'
echo '{"record":"result","rank":0,"scope":"rank","step_seconds_p50":0.0015,"loss_last":0.1}'
""")
        self.program("virtrain-probe", """echo '{"record":"probe","name":"device_copy","value":4e12,"unit":"B/s"}'""")
        self.assertEqual(bandwidth.passes(self.session()), "ok")
        self.assertEqual(self.rows()[1], ["convolution forward", "1", "2.000", "100 %", "15.6", "2.00", "50 %"])
        self.assertEqual(self.rows()[4], ["conv1 forward", "2,000", "1,000", "1,000", "–", "–"])
        self.assertEqual(self.rows()[6], ["fp16", "256", "ok", "full",
                                          "the step as one graph takes 1.50 ms, its operations one by one 2.00 ms"])
        self.program(trainer.TRAINER, "exit 3")
        self.assertEqual(bandwidth.passes(self.session()), "FAILED")
        self.assertEqual(self.rows()[1][2:], ["FAILED", "–", "exit 3: no output"])

    PROBE = """case $2 in
device_copy) echo '{"record":"probe","name":"device_copy","data_type":"fp16","size_bytes":1024,"value":2,"unit":"'$LD_LIBRARY_PATH'"}';;
gpu_gemm) echo '{"record":"probe","name":"gpu_gemm","value":1,"unit":"FLOP/s","wrong":'$WRONG'}';;
host_to_device) [ $WRONG = 0 ] || { echo 'no room' >&2; exit 1; };;
nccl*) echo '{"record":"probe","name":"alone_in_place","ranks":1,"value":1,"unit":"B/s","detail":{"in_place":true}}'; exit 4;;
esac
"""

    def test_probes_find_the_libraries_and_what_cannot_be_here_is_no_failure(self):
        self.program("virtrain-probe", self.PROBE)
        with patch.dict(os.environ, WRONG="0"), patch.object(machine, "library_path", lambda: "/wheel:/driver"):
            self.assertEqual(bandwidth.probes(self.session()), "ok")
        rows = {row[0]: row[1:] for row in self.rows()[1:]}
        self.assertEqual(rows["device_copy"], ["fp16", "1,024", "2 /wheel:/driver"])
        self.assertIn("left out: no output", rows["peer_copy"][2])
        self.assertNotIn("alone_in_place", rows)
        with patch.dict(os.environ, WRONG="7"):
            self.assertEqual(bandwidth.probes(self.session()), "FAILED")
        text = self.current.text()
        self.assertIn("| gpu_gemm | – | – | FAILED: wrong data |", text)
        self.assertIn("| host_to_device | – | – | FAILED: exit 1: no room |", text)
        self.assertIn("was not built", bandwidth.figures_of(self.session(build_folder="/nonexistent"), "triad")[1])


class PyTorch(unittest.TestCase):
    """The peer's process with a torch that does nothing: what is called."""

    def step(self, torch, **arguments):
        with patch.dict(sys.modules, {"torch": torch, "resnet50_reference": unittest.mock.MagicMock()}):
            sys.modules.pop("pytorch_gpu", None)
            module = importlib.import_module("pytorch_gpu")
        given = {"variant": "eager", "precision": "bf16", "batch_size": 2, "image_size": 64, **arguments}
        return module, module.Step(argparse.Namespace(**given))

    def test_every_variant_steps_and_a_graph_is_captured_once_and_replayed(self):
        for variant, eager_steps, replayed in (("eager", 2, 0), ("graph", 4, 2), ("compile", 2, 0), ("compile-graphs", 2, 0)):
            torch = unittest.mock.MagicMock()
            _, step = self.step(torch, variant=variant)
            for _ in range(2):
                step.run()
            self.assertEqual(torch.optim.SGD.return_value.step.call_count, eager_steps, variant)
            self.assertEqual(torch.cuda.CUDAGraph.return_value.replay.call_count, replayed, variant)
            self.assertEqual(torch.compile.call_count, "compile" in variant)

    def test_images_come_in_the_type_of_the_arithmetic_and_the_update_takes_the_loss_scale(self):
        for precision, type_name, scaled in (("fp16", "float16", True), ("bf16", "bfloat16", False), ("tf32", "float32", False)):
            torch = unittest.mock.MagicMock()
            torch.optim.SGD.return_value = argparse.Namespace()
            _, step = self.step(torch, precision=precision)
            torch.randn.return_value.to.assert_called_once_with(getattr(torch, type_name), memory_format=torch.channels_last)
            self.assertEqual((hasattr(step.optimizer, "grad_scale"), hasattr(step.optimizer, "found_inf")), (scaled, scaled))
            self.assertEqual(step.scale, 128 if scaled else 1)
            self.assertIs(torch.backends.cudnn.benchmark, True)

    def test_the_speed_is_the_median_of_windows_of_ten_steps(self):
        module, step = self.step(unittest.mock.MagicMock())
        clock = Clock()
        counted = iter([0] * 5 + [0.5] * 10 + [0.25] * 10 + [2] * 5)  # steps of a warm-up and of three windows

        def run():
            clock.now += next(counted)
        with patch.object(step, "run", run), patch.object(module.time, "monotonic", clock):
            self.assertEqual(module.images_per_second(step, argparse.Namespace(warmup_seconds=0, steps=25, batch_size=2))[0], 4)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
