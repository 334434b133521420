# exam_ab.sh [same]: examines `pinprof ab` for some 8 minutes.
# PROGRAMS is the folder with the repositories of others (minGPT, makemore, ng-video-lecture); $OUT gets the results.
# Without `same`: slow-downs, histories and some comparisons of programs with themselves; with it, only the latter.
export PYTHONPATH=$PWD PYTHONUNBUFFERED=1 part=$1
python3 -c "import click, msgspec, libcst" || exit 1
begin=$SECONDS cores=$(nproc) gpus=$(nvidia-smi -L | wc -l) W=$(mktemp -d);
X="python3 scripts/exam_ab.py" O="--others $PROGRAMS" last=$((gpus - 1))
few="--subject mlp --subject small_ops --subject lecture_bigram --subject transformer --subject lecture_gpt --subject makemore"
on_gpu="--device cuda --subject mlp --subject small_ops --subject transformer --subject lecture_gpt --subject makemore"
lane() { name=$1; shift; ( "$@" > $W/$name.log 2>&1; echo "lane $name ended with $? after $((SECONDS - begin)) s" ) & }
if [ "$part" = same ]; then
  lane same $X run $W/same $O --same 60 --at-once $((cores * 5 / 8)) --seconds 0.6 --limit-s 95 --begin-at-most-s 360 --no-causes $few
  lane loader $X run $W/loader $O --same 6 --at-once 2 --seconds 0.6 --limit-s 130 --begin-at-most-s 320 --no-causes --subject loader
  for gpu in $(seq 0 $last); do export CUDA_VISIBLE_DEVICES=$gpu
    lane gpu_same$gpu $X run $W/gpu_same$gpu $O --same 20 --at-once 3 --seconds 0.8 --limit-s 140 --begin-at-most-s 310 --no-causes $on_gpu
  done
else
  [ $cores -ge 32 ] && same=7 slow=5 || { same=3 slow=3; }
  lane same $X run $W/same $O --same 40 --at-once $same --seconds 0.6 --limit-s 80 --begin-at-most-s 375 --no-causes $few
  lane slow $X run $W/slow $O --slower 9 --at-once $slow --seconds 1 --limit-s 100 --begin-at-most-s 325 --case mlp:op --case small_ops:python --case transformer:copy --case lecture_bigram:item --case makemore:python --case lecture_gpt:op
  lane bisect $X bisect $W/bisect $O --case mlp:python --percent 8 --revisions 12 --slow 7 --broken 6 --seconds 0.8 --limit-s 75
  export CUDA_VISIBLE_DEVICES=0
  lane gpu_same $X run $W/gpu_same $O --same 20 --at-once 2 --seconds 0.8 --limit-s 130 --begin-at-most-s 320 --no-causes $on_gpu
  export CUDA_VISIBLE_DEVICES=$last
  lane gpu_slow $X run $W/gpu_slow $O --device cuda --slower 4 --at-once 3 --seconds 1 --limit-s 130 --begin-at-most-s 290 --case transformer:op --case small_ops:python --case transformer:copy --case small_ops:sync
  lane gpu_bisect $X bisect $W/gpu_bisect $O --device cuda --case small_ops:python --units 40000 --revisions 3 --slow 2 --seconds 0.8 --limit-s 110
fi
while [ $((SECONDS - begin)) -lt 468 ] && [ -n "$(jobs -r)" ]; do sleep 2; done
for each in $W/*/; do name=$(basename $each); mkdir -p $OUT/$name; cp $each/*.json $each/*.jsonl $OUT/$name/ 2>/dev/null; $X summary $each > $OUT/$name/summary.txt 2>&1; done
cp $W/*.log $OUT/; { nvidia-smi -L; nproc; uptime; python3 -c "import torch; print(torch.__version__)"; } > $OUT/machine.txt
tail -n 40 $OUT/*/summary.txt; echo "$((SECONDS - begin)) s"
kill $(jobs -p) 2>/dev/null; true
